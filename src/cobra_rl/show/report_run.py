"""What a run of `cobra solve` came to: a table, a learning curve and a film."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Column, Table

from cobra_rl.agents.agent import Agent
from cobra_rl.evaluation.causes import CAUSES, reward_lost
from cobra_rl.evaluation.report import write_figures
from cobra_rl.evaluation.task import CONTEXT, bootstrap_interval, greedy_scores, interquartile_mean, or_never, searching
from cobra_rl.figures.learning import learning_curve
from cobra_rl.figures.style import write
from cobra_rl.films import beside, film, save_gif
from cobra_rl.spriteworld import MODES, make

SOON = {"steps_to_90": "steps to 90 %", "episodes_to_90": "episodes to 90 %"}
LOST_SCENES = 64  # for `--causes`
FRAMES, FPS = 60, 4.0
TEST_SEED = 1919  # of the episodes of `cobra evaluate RUN`: others than those at the end of the run


def report_task(result: Mapping[str, Any], folder: Path) -> None:
    """Prints what `result.json` holds; draws the curve, and the first seed's agent at play."""
    print_table(result)
    curve = write(learning_curve(dict(result)), "learning_curve", folder)
    problem, agent = result["problem"], Agent.load(folder)
    worlds = {mode: make(problem["task"], mode, problem["variant"]) for mode in MODES}
    films = {
        f"{problem['task'].replace('_', ' ')}, {mode}": film(
            searching(agent.config, env), (agent.frozen, agent.reward), env, FRAMES, seed=7
        )
        for mode, env in worlds.items()
    }
    path = folder / "film.gif"
    save_gif(beside(films), path, FPS)
    print(f"Figures: {folder / 'result.json'}\nLearning curve: {curve}\nFilm: {path}")


def report_run(folder: Path, episodes: int, causes: bool, out: Path | None) -> dict[str, Any]:
    """Greedy episodes of each seed of a run, in both modes; and, if wanted, where reward is lost."""
    if episodes < 1:
        raise ValueError(f"--episodes is {episodes}; it must be at least 1.")
    settings, seeds = Agent.settings(folder), sorted(folder.glob("seed*/reward"))
    problem, rows = settings["problem"], []
    for path in seeds:
        seed = int(path.parent.name.removeprefix("seed"))
        agent = Agent.load(folder, seed)
        where = (problem["task"], problem["variant"], episodes, TEST_SEED)
        rows.append({"seed": seed} | greedy_scores(agent.config, agent.frozen, agent.reward, *where))
        for mode in MODES if causes else ():
            env = make(problem["task"], mode, problem["variant"])
            lost = reward_lost(agent.config, agent.frozen, agent.reward, env, LOST_SCENES, TEST_SEED)
            rows[-1] |= {f"{name}, {mode}": value for name, value in lost.items()}
    figures = settings | {"episodes": episodes, "seeds": rows}
    print_table(figures)
    if causes:
        _print_causes(rows)
    write_figures(out, figures)
    return figures


def print_table(result: Mapping[str, Any]) -> None:
    """A row a seed, then their interquartile mean with its interval, then what to compare it with."""
    seeds = result["seeds"]
    soon = {name: heading for name, heading in SOON.items() if name in seeds[0]}  # only learning measures that
    table = Table("", "success, train", "success, test", *soon.values())
    for seed in seeds:
        successes = (f"{seed[f'success_{mode}']:.1%}" for mode in MODES)
        table.add_row(f"seed {seed['seed']}", *successes, *(_count(seed[name]) for name in soon))
    if len(seeds) > 1:
        means = [summary([seed[f"success_{mode}"] for seed in seeds]) for mode in MODES]
        table.add_row("interquartile mean", *means, *(_middle(seeds, name) for name in soon))
    for name, scores in result.get("context", {}).items():
        table.add_row(CONTEXT[name], *(f"{scores[mode]:.1%}" for mode in MODES))
    table.title = result["problem"]["task"].replace("_", " ") + f", {result['problem']['variant']} variant"
    Console().print(table)


def _print_causes(seeds: Sequence[Mapping[str, Any]]) -> None:
    """What a step could gain, and what of it was lost by what; means over scenes, in reward."""
    table = Table("", "to gain", *CAUSES)
    for mode in MODES:
        for seed in seeds:
            values = (seed[f"{name}, {mode}"] for name in ("to gain", *CAUSES))
            table.add_row(f"seed {seed['seed']}, {mode}", *(f"{value:.2f}" for value in values))
    table.title = f"Reward to gain in a step, and lost by what: means over {LOST_SCENES} scenes that the agent came to"
    Console().print(table)


def print_suite(results: Sequence[Mapping[str, Any]]) -> None:
    """A row a task: interquartile means over seeds with their intervals, and what to compare them with."""
    successes = (Column(f"success,\n{mode}", no_wrap=True) for mode in MODES)
    table = Table(Column(no_wrap=True), *successes, *CONTEXT.values(), "steps,\nepisodes\nto 90 %", pad_edge=False)
    for result in results:
        seeds, context = result["seeds"], result["context"]
        table.add_row(
            result["problem"]["task"].replace("finding_", "finding\n").replace("_", " ").replace("more ", "more\n"),
            *(summary([seed[f"success_{mode}"] for seed in seeds]) for mode in MODES),
            *("\n".join(f"{context[name][mode]:.1%}" for mode in MODES) for name in CONTEXT),
            "\n".join(_middle(seeds, name) for name in SOON),
        )
    table.title = f"Interquartile mean over {len(results[0]['seeds'])} seeds; what to compare with: train above test"
    Console().print(table)


def summary(values: Sequence[float]) -> str:
    """Interquartile mean and, below it, its 95 % interval, as percentages."""
    low, high = bootstrap_interval(values)
    return f"{interquartile_mean(values):.1%}\n{low:.1%}-{high:.1%}"


def _middle(seeds: Sequence[Mapping[str, Any]], name: str) -> str:
    counts = [seed.get(name) for seed in seeds]
    reached, middle = sum(count is not None for count in counts), interquartile_mean(or_never(counts))
    if reached == len(counts):
        return f"{middle:.0f}"
    return ("" if math.isinf(middle) else f"{middle:.0f}; ") + f"{reached} of {len(counts)} seeds"


def _count(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"
