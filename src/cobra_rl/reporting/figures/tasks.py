"""Figures of the tasks: bars, learning curves, episodes, and the curve and film of a finished run."""

import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from cobra_rl.evaluation.statistics import Summary, bootstrap_interval, count, interquartile_mean, percent, span
from cobra_rl.evaluation.task import REFERENCES, SIDE_BY_SIDE, WINDOW, episodes
from cobra_rl.models.world import WorldModel
from cobra_rl.reporting.figures.style import COLORS, DrawFigure, Drawn, caption, label, panels, show, write
from cobra_rl.reporting.films import Frame, beside, film, picture, save_gif
from cobra_rl.reporting.results import BASELINES, LABELS, Record, Suite, TaskResult, is_of, read_suite, task_result
from cobra_rl.runs.agent import Agent
from cobra_rl.runs.load import TrainedAgent
from cobra_rl.spriteworld import MODES, REWARDED, SUITE, Environment, make

GREY = "#cccccc"  # bars of those that did not get there
HEADINGS = {"train": "training mode", "test": "robustness mode"}
SERIES = {  # what was run, as `read_suite` calls it -> the colour and the label of its bars
    "solve": ("cobra", LABELS["cobra"]),
    "solve-uniform": ("uniform", "COBRA, uniform proposals"),
} | {kind: (name, LABELS[name]) for name, kind in BASELINES.items()}
_IN_THE_PAPER = ("solve", BASELINES["mpo_handheld"], BASELINES["mpo_raw"])
BARS: dict[str, dict] = {  # figure -> the arguments of `read_kinds`
    "performance": {"kinds": _IN_THE_PAPER, "needed": _IN_THE_PAPER, "command": "cobra solve"},
    "baselines": {
        "kinds": ("solve", *BASELINES.values()),
        "needed": tuple(BASELINES.values()),
        "command": "cobra baseline",
    },
    "ablation": {
        "kinds": ("solve", "solve-uniform"),
        "needed": ("solve-uniform",),
        "command": "cobra solve --no-exploration-policy",
    },
}
SPARSE_KINDS = {"solve-sparse": ("cobra", "value predictor"), "solve-sparse-reward": ("reward", "reward predictor")}
CURVE_POINTS = 60  # of an average curve
FIRST_STEP = 30  # at which `learning_curves` begins
FRAMES = 5  # of `solving`, for each task and mode
FRAME_SIZE = 160  # of a frame, in pixels
FILM_FRAMES = 60  # of the film of a run, for each mode
TRIES = 8  # episodes to look through for one that is long enough


Agents = Callable[[str], Agent]  # loads the agent of a task


def bars_of(name: str) -> DrawFigure:
    """Return what draws one of the figures `BARS`."""

    def draw(_: WorldModel, results: Path) -> Drawn:
        bars = read_kinds(results, **BARS[name])
        ratios = {"ratios": replay_ratios(bars)} if name == "baselines" else {}
        return Drawn(_bars(bars, log=name != "ablation"), caption(name, **_budget(bars), **ratios))

    return draw


def read_kinds(results: Path, kinds: Sequence[str], *, needed: Sequence[str], command: str) -> Suite:
    """Read the results of the six tasks of these kinds; kinds that have none are left out.

    Raises:
        FileNotFoundError: If there is none of the kinds `needed`, which `command` makes.
    """
    suite = read_suite(results)
    found = {kind: {task: of for task, of in suite.get(kind, {}).items() if task in REWARDED} for kind in kinds}
    if not any(found[kind] for kind in needed):
        raise FileNotFoundError(f"There is no result of `{command}` in {results}: this figure shows them.")
    return {kind: by_task for kind, by_task in found.items() if by_task}


def replay_ratios(bars: Suite) -> str:
    """Write how many transitions baselines drew for learning per environment step."""
    baselines = (result for of in bars.values() for result in of.values() if result.agent in BASELINES)
    return span((result.replay_ratio for result in baselines), "{:g}".format)


def agents_of(results: Path, world: Path | str | None = None) -> Agents:
    """Return what loads the agent of a task: that of its run in `results`, solve/TASK/.

    If these are the results of the world itself, its agents are those that are kept with it. With a `world`, by name or
    folder, agents that learnt in another one are refused.
    """

    def load(task: str) -> Agent:
        folder = results / "solve" / task
        if not (folder / "run.json").is_file():
            raise FileNotFoundError(f"There is no run {folder} of `cobra solve {task}`: this figure shows its agent.")
        return Agent.load(folder, world=world)

    return functools.partial(Agent.pretrained, world=world) if is_of(results, world) else load


def solving(_: WorldModel, results: Path, agents: Agents | None = None) -> Drawn:
    """Draw an episode of each task and mode: the first of at least four steps. `agents`: by default `agents_of`."""
    agents = agents or agents_of(results)
    figure = Figure(figsize=(2 * FRAMES * 0.95 + 1.4, len(REWARDED) * 0.95 + 0.3))
    widths = [1.0] * FRAMES + [0.25] + [1.0] * FRAMES  # a gap between the modes
    margins = {"left": 0.12, "right": 0.995, "bottom": 0.01, "top": 0.95, "wspace": 0.04, "hspace": 0.06}
    grid = figure.subplots(len(REWARDED), len(widths), width_ratios=widths, gridspec_kw=margins, squeeze=False)
    for row, task in zip(grid, REWARDED, strict=True):
        row[FRAMES].set_visible(False)
        agent = agents(task)
        for mode, cells in zip(MODES, (row[:FRAMES], row[FRAMES + 1 :]), strict=True):
            for axes, frame in zip(cells, _frames(agent, task, mode), strict=True):
                show(axes, frame)
        label(row[0], SUITE[task].title.replace(", ", ",\n"), fontsize=8)
    for mode, column in zip(MODES, (FRAMES // 2, FRAMES + 1 + FRAMES // 2), strict=True):
        grid[0, column].set_title(HEADINGS[mode], fontsize=9)
    return Drawn(figure, caption("solving"))


def learning_curve(result: TaskResult) -> Drawn:
    """Draw the learning curve of a finished run of a task."""
    figure, ((axes,),) = panels(4.6, 2.8)
    name = LABELS.get(result.agent, result.agent)
    color = COLORS.get(result.agent, COLORS["cobra"])
    for seed in result.seeds:
        axes.plot(*seed.curve, color=color, linewidth=1.2, alpha=0.8)
        if seed.steps_to_90 is not None:
            axes.plot(seed.steps_to_90, 0.9, "o", color=color, markersize=4)
    for other, levels in result.context.items():
        axes.axhline(levels["train"], color=COLORS[other], linestyle="--", linewidth=1.0, label=REFERENCES[other])
    axes.plot([], [], color=color, label=f"{name}, a line a seed" if len(result.seeds) > 1 else name)
    _describe(axes, result.title + (", sparse reward" if result.is_sparse else ""), result.steps)
    axes.locator_params(axis="x", nbins=5)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=7)
    return Drawn(figure, caption("learning_curve", result=result, window=WINDOW))


def learning_curves(_: WorldModel, results: Path) -> Drawn:
    """Draw a panel for each task: COBRA and the baselines whose results exist, on a logarithmic axis of steps."""
    found = read_kinds(results, **BARS["baselines"])
    most = max(result.steps for by_task in found.values() for result in by_task.values())
    figure, grid = panels(10.0, 5.4, 2, 3, sharex=True, sharey=True)
    for axes, task in zip(grid.flat, REWARDED, strict=True):
        for kind, by_task in found.items():
            if result := by_task.get(task):
                color, name = SERIES[kind]
                _curve(axes, result, COLORS[color], name, first=FIRST_STEP)
        axes.set_title(SUITE[task].title, fontsize=9)
        axes.label_outer()
    grid[0, 0].set(xscale="log", xlim=(FIRST_STEP, most))
    entries = {name: line for axes in grid.flat for line, name in zip(*axes.get_legend_handles_labels(), strict=True)}
    figure.legend(entries.values(), entries.keys(), loc="outside upper center", ncols=len(entries), frameon=False)
    return Drawn(figure, caption("learning_curves", window=WINDOW, ratios=replay_ratios(found)))


def report_run(record: Record, folder: Path, agent: TrainedAgent, envs: Mapping[str, Environment]) -> tuple[Path, Path]:
    """Draw the learning curve of a finished run, and film its agent in the environment of each mode.

    Args:
        record: The contents of the run's result.json.
        folder: The folder that the files are written to.
        agent: The agent to film.
        envs: The environments by mode, "train" and "test".

    Returns:
        The paths of the learning curve and of the film.
    """
    result = task_result(record)
    path = folder / "film.gif"
    curve = write(learning_curve(result), "learning_curve", folder)
    together = min(record["final"], SIDE_BY_SIDE)  # as in the episodes at its end
    films = {
        f"{result.title}, {mode}": film(agent.policy, agent.params, env, FILM_FRAMES, seed=7, together=together)
        for mode, env in envs.items()
    }
    save_gif(beside(films), path, fps=4.0)
    return curve, path


def sparse(_: WorldModel, results: Path) -> Drawn:
    """Draw a panel for each task whose results exist."""
    suite = read_suite(results)
    tasks = list(suite.get("solve-sparse", {}))
    if not tasks:
        raise FileNotFoundError(f"There is no result of `cobra solve TASK --sparse` in {results}.")
    figure, grid = panels(5.4 * len(tasks), 3.2, columns=len(tasks))
    for axes, task in zip(grid[0], tasks, strict=True):
        for kind, (color, name) in SPARSE_KINDS.items():
            if result := suite.get(kind, {}).get(task):
                _curve(axes, result, COLORS[color], name)
        axes.legend(frameon=False, fontsize=8, loc="center right")
    return Drawn(figure, caption("sparse", window=WINDOW))


def _bars(bars: Suite, log: bool) -> Figure:
    """Draw three panels with a group of bars per task: success in both modes, and steps to 90 %."""
    figure, grid = panels(8.0 if len(bars) <= 3 else 13.0, 5.0, len(MODES) + 1, sharex=True)
    *rows, last = grid[:, 0]
    width = 0.7 / len(bars)
    for number, (kind, results) in enumerate(bars.items()):
        color = COLORS[SERIES[kind][0]]
        offset = (number - (len(bars) - 1) / 2) * width
        for task, result in results.items():
            place = REWARDED.index(task) + offset
            for axes, mode in zip(rows, MODES, strict=True):
                values = [float(seed.success[mode]) for seed in result.seeds]
                _bar(axes, place, width, found=result.success(mode), values=values, color=color)
            _steps_to_90(last, place, width, result, color)
    known = {task: result for by_task in reversed(bars.values()) for task, result in by_task.items()}
    for axes, mode in zip(rows, MODES, strict=True):
        _compared(axes, known, mode)
        axes.set(ylabel=f"success,\n{HEADINGS[mode]}", ylim=(0.0, 1.05), yticks=(0.0, 0.5, 1.0))
    last.set(ylabel="rewarded steps\nto 90 %", xticks=range(len(REWARDED)), xlim=(-0.6, len(REWARDED) - 0.4))
    last.set_xticklabels([SUITE[task].title.replace(", ", ",\n") for task in REWARDED], fontsize=8)
    if log:
        last.set(yscale="log", ylim=(50.0, None))
    if len(bars) > 1:
        entries = [Patch(color=COLORS[SERIES[kind][0]], label=SERIES[kind][1]) for kind in bars]
        figure.legend(handles=entries, loc="outside upper center", ncols=len(bars), frameon=False, fontsize=8)
    return figure


def _bar(
    axes: Axes,
    place: float,
    width: float,
    *,
    found: Summary,
    values: list[float],
    color: str,
    most: float = math.inf,
) -> float:
    """Draw a mean (grey, as high as `most`, if it is infinite), its interval and the seeds; return the top of it."""
    mean, low, high = (float(value) for value in found[:3])
    high = min(high, most)
    look = {"color": color, "alpha": 0.85} if math.isfinite(mean) else {"color": GREY, "edgecolor": color, "alpha": 0.7}
    axes.bar(place, min(mean, most), 0.92 * width, **look)
    if math.isfinite(mean):
        axes.errorbar(place, mean, [[max(0.0, mean - low)], [max(0.0, high - mean)]], color="black", linewidth=1.0)
    axes.plot(np.full(len(values), place), values, ".", color="black", markersize=2.5, alpha=0.5)
    return max([min(mean, most), high, *values])


def _steps_to_90(axes: Axes, place: float, width: float, result: TaskResult, color: str) -> None:
    """Draw the steps to 90 %, in numbers too; where not all seeds got there, how many did and what success they had."""
    found = result.time_to_90("steps_to_90")
    counts = result.counts("steps_to_90")
    reached = [float(value) for value in counts if value is not None]
    top = _bar(axes, place, width, found=found, values=reached, color=color, most=float(result.steps))
    mean = float(found.mean)
    text = f"{mean / 1000:.0f}k" if math.isfinite(mean) and mean >= 10_000 else count(found.mean).replace(",", "")
    lines = [text] if math.isfinite(mean) else []
    if len(reached) < len(counts):
        had = percent(result.success("train").mean, 0).replace(" ", "")
        lines.append(f"({len(reached)} of {len(counts)})" if lines else f"{len(reached)} of {len(counts)}\n{had}")
    size = 7 if width > 0.15 else 6
    axes.annotate("\n".join(lines), (place, top), (0, 2), textcoords="offset points", ha="center", fontsize=size)


def _compared(axes: Axes, results: Mapping[str, TaskResult], mode: str) -> None:
    """Draw a random policy and the bound of a one-step search with the true state across each group of bars."""
    for task, result in results.items():
        ends = (REWARDED.index(task) - 0.45, REWARDED.index(task) + 0.45)
        for name, style in (("bound", "-"), ("random", ":")):
            if name in result.context:
                axes.hlines(result.context[name][mode], *ends, color=COLORS["random"], linestyle=style, linewidth=1.2)


def _budget(bars: Suite) -> dict[str, str]:
    """Write how many seeds, episodes and steps the results have: "5" or "3-5"; steps by agent if there are several."""
    results = [result for by_task in bars.values() for result in by_task.values()]
    thousands = "{:,}".format
    steps = {SERIES[kind][1]: span((result.steps for result in of.values()), thousands) for kind, of in bars.items()}
    alike = len(set(steps.values())) == 1
    return {
        "seeds": span((len(result.seeds) for result in results), thousands),
        "episodes": span((result.episodes for result in results), thousands),
        "steps": next(iter(steps.values())) if alike else ", ".join(f"{of} ({name})" for name, of in steps.items()),
    }


def _curve(axes: Axes, result: TaskResult, color: str, name: str, first: int = 0) -> None:
    """Draw the interquartile mean over seeds and its interval; from step `first` on, if given, for a log axis."""
    x = (
        np.geomspace(first, max(result.steps, first), CURVE_POINTS)
        if first
        else np.linspace(0, result.steps, CURVE_POINTS)
    )
    curves = [np.array(seed.curve) for seed in result.seeds]
    points = np.stack([success[np.searchsorted(ends, x, side="right") - 1] for ends, success in curves], axis=1)
    low, high = np.array([bootstrap_interval(point, draws=1000) for point in points], float).T
    axes.fill_between(x, low, high, color=color, alpha=0.2, linewidth=0)
    axes.plot(x, [float(interquartile_mean(point)) for point in points], color=color, label=name)
    for other, style in (("random", ":"), ("bound", "-")):
        if other in result.context:
            axes.axhline(result.context[other]["train"], color=COLORS["random"], linestyle=style, linewidth=1.0)
    _describe(axes, result.title, result.steps)


def _describe(axes: Axes, title: str, steps: int) -> None:
    """Give learning curves their labels, limits and title."""
    axes.set(xlabel="rewarded environment steps", ylabel=f"success, last {WINDOW} episodes")
    axes.set(xlim=(0, max(steps, 1)), ylim=(-0.02, 1.03))
    axes.set_title(title, fontsize=10)


def _frames(agent: Agent, task: str, mode: str) -> list[Frame]:
    env = make(task, mode)
    played = list(itertools.islice(episodes(agent.policy, agent.params, env, seed=3), TRIES))
    episode = next((each for each in played if len(each.actions) >= FRAMES - 1), played[-1])
    actions = [*episode.actions, None]
    chosen = np.linspace(0, len(actions) - 1, FRAMES).round().astype(int)
    return [picture(env, episode.states[i], FRAME_SIZE, actions[i]) for i in chosen]
