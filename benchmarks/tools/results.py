"""Write every published table and number anew from `results/`: docs/results.md, and the blocks of other pages.

    .venv/bin/python -m benchmarks.tools.results [--check]

docs/results.md is made from `pages/results.md.j2` beside this file: prose, tables and numbers, no number typed by hand.
In other pages, what stands between `<!-- results: NAME -->` and `<!-- end -->` is made from `pages/blocks/NAME.md.j2`.
So a change of the prose is made in the template, and then this is run. With --check nothing is written; it fails if
a page is not what would be written, as `tests/test_published.py` does.
"""

import argparse
import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jinja2

from benchmarks.tools import markdown
from cobra_rl.evaluation.statistics import Exact, count, count_summary, percent
from cobra_rl.reporting.results import (
    BASELINES,
    EXPLORE,
    LABELS,
    VISION,
    TaskResult,
    read_explore,
    read_log,
    read_task,
    read_vision,
    results_of,
    task_result,
)
from cobra_rl.runs.worlds import DEFAULT_WORLD
from cobra_rl.spriteworld.names import REWARDED, TASKS

ROOT = Path(__file__).resolve().parents[2]
PAGES = Path(__file__).parent / "pages"
BLOCK = re.compile(r"(<!-- results: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
WORLDS = ("", "-world1", "-world2")  # the published world, and those that were trained alike with other seeds
RATIOS = (4, 8, 16, 32, 100, 320)  # samples per environment step
OWN_RATIO = {"handheld": 8, "cobra": 320}  # those of the published runs
SHOWN_WORLDS = ("world 0 (published)", "world 1", "world 2")
# How metrics of the exploration policy begin, which random actors do not train; and those of actions that it chooses.
OF_POLICY = ("hit", "sprites_struck", "motion", "octant")
OF_ITS_ACTIONS = ("error_correlation", "error_correlation_ceiling")
ABLATED = "beta and gamma 0.5 throughout", "β and γ 0.5"  # noqa: RUF001 in the file, in the table
SHOWN_BATCHES = {"functional": "functional core", "gym_vector": "Gymnasium vector environment"}


def least_to_most(counts: Sequence[Exact]) -> str:
    """Write the least and the most of some counts: "143-877"."""
    return f"{count(min(counts))}-{count(max(counts))}"


class Published:
    """What `results/` holds, as the templates name it."""

    def __init__(self, world: str = DEFAULT_WORLD):
        self.world = world
        self.results = results_of(world)
        self.tasks = REWARDED
        self.vision = [self._vision(f"vision{world.replace('-', '_')}") for world in WORLDS]
        self.explore = [self._explore(f"explore{world.replace('-', '_')}") for world in WORLDS]

    def raw(self, name: str) -> Any:
        """Return a JSON file of the world, or of none if the world has no such file."""
        own = self.results / f"{name}.json"
        return json.loads((own if own.exists() else self.results.parent / f"{name}.json").read_text())

    def task(self, task: str, suffix: str = "", folder: str = "solve") -> TaskResult:
        """Return the result of a task; it must be there."""
        found = read_task(self.results, f"{folder}/{task}{suffix}")
        if found is None:
            raise FileNotFoundError(f"{self.results} holds no {folder}/{task}{suffix}.json.")
        return found

    def other(self, name: str) -> TaskResult | None:
        """Return another result of a task, by its file, if there is one."""
        return read_task(self.results, name)

    def baseline(self, task: str, name: str) -> TaskResult | None:
        """Return the result of a baseline, if there is one."""
        return read_task(self.results, f"baseline/{task}-{name}")

    def success(self, task: str, mode: str = "train", suffix: str = "") -> str:
        """Write the success of COBRA on a task."""
        return percent(self.task(task, suffix).success(mode).mean)

    def steps(self, task: str, suffix: str = "") -> str:
        """Write the rewarded steps that COBRA needs for a task."""
        return count_summary(self.task(task, suffix).counts("steps_to_90"))

    def range(self, mode: str, suffix: str = "") -> str:
        """Write the least and the greatest success over the tasks: "95.9-100.0 %"."""
        means = [self.task(task, suffix).success(mode).mean for task in REWARDED]
        ends = [percent(end) for end in (min(means), max(means))]
        return ends[0] if ends[0] == ends[1] else f"{ends[0].removesuffix(' %')}-{ends[1]}"

    def steps_range(self, *tasks: str) -> str:
        """Write the least and the most rewarded steps that COBRA needs over some tasks: "143-498"."""
        return least_to_most([self.task(task).time_to_90("steps_to_90").mean for task in tasks])

    def episodes_range(self, *tasks: str) -> str:
        """Write the least and the most episodes."""
        return least_to_most([self.task(task).time_to_90("episodes_to_90").mean for task in tasks])

    def baseline_range(self, name: str, *tasks: str) -> str:
        """Write the least and the most steps that a baseline needs over some tasks."""
        found = [self.baseline(task, name) for task in tasks]
        return least_to_most([result.time_to_90("steps_to_90").mean for result in found if result])

    def reached_by(self, task: str, name: str) -> str:
        """Write how many steps a baseline needs for a task."""
        return markdown.reached_briefly(self.baseline(task, name))

    def fewest(self, task: str, name: str) -> int | None:
        """Return how many steps the fastest seed of a baseline needs for a task; None if no seed got there."""
        result = self.baseline(task, name)
        return min((n for n in result.counts("steps_to_90") if n is not None), default=None) if result else None

    def baseline_success(self, task: str, name: str) -> str:
        """Write the success of a baseline in training mode at the end of its budget."""
        result = self.baseline(task, name)
        return "not run" if result is None else percent(result.success("train").mean)

    def seeds(self, result: TaskResult | None, mode: str = "test") -> str:
        """Write the success of each seed: "97.5, 95.0 %"."""
        if result is None:
            raise FileNotFoundError(f"{self.results} lacks a result that a page names.")
        return ", ".join(percent(seed.success[mode]).removesuffix(" %") for seed in result.seeds) + " %"

    def minutes(self, log: str) -> str:
        """Write how long a training took, by its log."""
        lines = read_log(self.results, f"{log}_log.jsonl") or []
        return f"{lines[-1]['minutes']:.0f} minutes"

    def log(self, name: str) -> list[dict[str, Any]]:
        """Return a log of the world, or of none."""
        own = read_log(self.results, f"{name}_log.jsonl")
        return [dict(line) for line in own or read_log(self.results.parent, f"{name}_log.jsonl") or []]

    def task_table(self, suffix: str = "") -> str:
        """Write the table of the tasks."""
        heads = ["task", "success, training", "success, robustness", "rewarded steps to 90 %", "episodes to 90 %"]
        return markdown.table(heads, [markdown.task_row(self.task(task, suffix)) for task in REWARDED])

    def readme_table(self) -> str:
        """Write the table of the tasks with the steps of MPO beside those of COBRA."""
        names = ("mpo_handheld", "mpo_raw")
        heads = ["task", "success, training", "success, robustness", "rewarded steps to 90 %"]
        rows = []
        for task in REWARDED:
            cells = markdown.task_row(self.task(task)).strip("| ").split(" | ")[:4]
            rows.append(markdown.row(*cells, *(markdown.reached_briefly(self.baseline(task, name)) for name in names)))
        return markdown.table([*heads, *(LABELS[name] for name in names)], rows)

    def kept_table(self) -> str:
        """Write the table of the greedy agents that were checked on the way."""
        heads = ["task", "rewarded steps to 90 %", "steps from which 90 % is kept", "... of each seed"]
        return markdown.table(heads, [markdown.kept_row(self.task(task, "-checks")) for task in REWARDED])

    def reference_table(self) -> str:
        """Write the table between chance and knowing all."""
        heads = ["task", "random policy", "uniform proposals", "COBRA", "true-state search", "normalised reward"]
        rows = [markdown.reference_row(self.task(task), self.task(task, "-uniform")) for task in REWARDED]
        return markdown.table(heads, rows)

    def worlds_table(self) -> str:
        """Write the tasks in all worlds, and how their results vary."""
        spread = "standard deviation within / between worlds"
        heads = ["task", "success, training", "success, robustness", "steps to 90 %", f"robustness, points: {spread}"]
        rows = [markdown.worlds_row([self.task(task, world) for world in WORLDS]) for task in REWARDED]
        return markdown.table([*heads, "steps: the same"], rows)

    def vision_table(self) -> str:
        """Write the metrics of vision in all worlds."""
        return markdown.table(["", "target", *SHOWN_WORLDS], markdown.metric_rows(VISION, self.vision))

    def explore_table(self) -> str:
        """Write the metrics of exploration in all worlds, and of the transition model that random actors teach."""
        random = self._explore("explore_random")
        left_out = {name for name in random if name.startswith(OF_POLICY)} | {*OF_ITS_ACTIONS}
        of_transition = {name: value for name, value in random.items() if name not in left_out}
        rows = markdown.metric_rows(EXPLORE, [*self.explore, of_transition])
        return markdown.table(["", "target", *SHOWN_WORLDS, "random actors"], rows)

    def pairs_elsewhere(self) -> str:
        """Write the greatest share of a prediction that is due to pairs of objects, of all tasks but clustering."""
        found = self.raw("latents_read")["figures"]
        return percent(round(max(of["pairs"] for task, of in found.items() if task != "clustering"), 6), 3)

    def scenes_table(self) -> str:
        """Write what was measured of vision on the scenes of all tasks."""
        metrics = ["FG-ARI attention / decoder", "alone", "split", "shared", "MSE", "position", "shape", "hue"]
        rows = [markdown.scenes_row(place, found) for place, found in self.raw("vision")["figures"].items()]
        return markdown.table(["scenes", *metrics], rows)

    def ablation_table(self) -> str:
        """Write what each part of the vision module does."""
        variants = self.raw("vision_ablation")["figures"]
        heads = [name.replace(*ABLATED) for name in variants]
        return markdown.table(["", "target", *heads], markdown.metric_rows(VISION, list(variants.values())))

    def sparse_table(self) -> str:
        """Write the results of sparse rewards."""
        heads = ["predictor", "success, training", "success, robustness", "steps to 90 %"]
        rows = []
        for name, suffix in (("value", "-sparse"), ("reward", "-sparse-reward")):
            cells = markdown.task_row(self.task("goal_finding_new_shape", suffix)).strip("| ").split(" | ")
            rows.append(markdown.row(name, *cells[1:4]))
        return markdown.table(heads, rows)

    def real_package(self) -> str:
        """Write how many episodes the agents solved in the real package: "592 of 600"."""
        found = self.raw("real_package")
        shares = [share for of in found["figures"].values() for share in of.values()]
        return f"{round(found['episodes'] * sum(shares))} of {found['episodes'] * len(shares)}"

    def baseline_table(self) -> str:
        """Write the results of the baselines."""
        heads = ["task", "agent", "seeds x steps", "success, training", "success, robustness", "steps to 90 %"]
        found = [self.baseline(task, name) for task in REWARDED for name in BASELINES]
        return markdown.table(heads, [markdown.baseline_row(result) for result in found if result])

    def sampled_table(self) -> str:
        """Write the baselines that were measured by samples, too."""
        rows = []
        for task in REWARDED:
            for name in BASELINES:
                path = self.results / "sampled" / f"{task}-{name}.json"
                result = self.baseline(task, name)
                if path.exists() and result:
                    measured = task_result(json.loads(path.read_text())["figures"], path.name)
                    rows.append(markdown.sampled_row(result, measured))
        return markdown.table(["task", "agent", "success, training", "success, robustness"], rows)

    def ratio_table(self) -> str:
        """Write how soon MPO handheld and COBRA learn with so many samples per step."""
        agents = ("MPO handheld", "COBRA")
        heads = [f"{agent}: {what}" for agent in agents for what in ("steps to 90 %", "success, robustness")]
        rows = [markdown.ratio_row(ratio, *self._ratio(ratio)) for ratio in RATIOS]
        return markdown.table(["samples per step", *heads], rows)

    def handheld_ratio(self, ratio: int) -> str:
        """Write how many times fewer steps COBRA needs than MPO handheld, with this many samples per step."""
        handheld, cobra = self._ratio(ratio)
        if handheld is None or cobra is None:
            raise FileNotFoundError(f"{self.results} does not hold both agents with {ratio} samples per step.")
        return f"{float(handheld.time_to_90('steps_to_90').mean / cobra.time_to_90('steps_to_90').mean):.0f}"

    def environment_table(self) -> str:
        """Write the speed of the environment beside the real package."""
        found = self.raw("benchmark_env")
        heads = ["", "real package", "Gymnasium, single", f"batch of {found['batch']}"]
        rows = []
        for task in TASKS:
            rates = found["steps_per_second"][task]
            ours = [f"{count(rates[way])} ({found[f'ratio_{way}'][task]:.0f}x)" for way in ("single", "batched")]
            rows.append(markdown.row(task, count(rates["real"]), *ours))
        return markdown.table(heads, rows)

    def growth_table(self) -> str:
        """Write how the rate of the environment grows with the batch."""
        found = self.raw("benchmark_env")["growth"]
        rows = [markdown.row(batch, *(count(rates[name]) for name in SHOWN_BATCHES)) for batch, rates in found.items()]
        return markdown.table(["batch", *SHOWN_BATCHES.values()], rows)

    def vision_speed_table(self) -> str:
        """Write the speed of vision beside PyTorch."""
        found = self.raw("benchmark_vision")["figures"]
        rows = {
            "a training step, frames of random play included": lambda f: f"{1e3 * f['seconds']['jax step']:.0f} ms",
            "the update alone": lambda f: f"{1e3 * f['seconds']['jax update']:.0f} ms",
            "the update in PyTorch": lambda f: f"{1e3 * f['seconds']['torch update']:.0f} ms",
            "encode one image / 64 images": lambda f: (
                " / ".join(f"{1e3 * f['seconds'][f'jax encode {n}']:.3g}" for n in (1, 64)) + " ms"
            ),
            "arithmetic of an update": lambda f: f"{f['gflop']['jax update']:.3g} GFLOP",
            "... per second": lambda f: f"{f['gflop_per_second']['jax update']:.0f} GFLOP/s",
            "peak memory, both libraries": lambda f: f"{f['peak_memory_mb'] / 1024:.1f} GB",
        }
        heads = [f"preset {name} (batch {of['batch']})" for name, of in found.items()]
        return markdown.table(["", *heads], [markdown.row(n, *map(write, found.values())) for n, write in rows.items()])

    def explore_speed_table(self) -> str:
        """Write the speed of the exploration phase with its actors."""
        heads = ["actors", "updates/s", "environment steps/s", "share of the learner's time with the actors"]
        rows = [
            markdown.row(
                name.replace("1 Ray actors", "1 Ray actor"),
                f"{of['updates_per_second']:.1f}",
                f"{of['env_steps_per_second']:.0f}",
                percent(round(of["share_of_time_with_actors"], 6)),
            )
            for name, of in self.raw("benchmark_explore")["figures"].items()
        ]
        return markdown.table(heads, rows)

    def cause(self, name: str, key: str) -> str:
        """Write a mean over the seeds of what `benchmarks.experiments.causes` measured."""
        seeds = self.raw(name)["figures"]["seeds"]
        return f"{sum(seed[key] for seed in seeds) / len(seeds):.2f}"

    def _ratio(self, ratio: int) -> tuple[TaskResult | None, TaskResult | None]:
        task = "goal_finding_new_shape"
        handheld = self.baseline(task, "mpo_handheld") if ratio == OWN_RATIO["handheld"] else None
        cobra = self.task(task) if ratio == OWN_RATIO["cobra"] else None
        return handheld or self.other(f"ratio_handheld_{ratio}"), cobra or self.other(f"ratio_cobra_{ratio}")

    def _vision(self, name: str) -> Any:
        found = read_vision(self.results, name)
        return found.main if found else {}

    def _explore(self, name: str) -> Any:
        found = read_explore(self.results, name)
        return found.metrics if found else {}


def pages(root: Path = ROOT) -> Iterator[tuple[Path, str]]:
    """Generate the pages that hold results: where each lies, and what it must say."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(PAGES),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,
    )
    names = {"it": Published(), "percent": percent, "count": count, "labels": LABELS}
    names["share"] = lambda value: percent(round(value, 6))
    yield root / "docs" / "results.md", environment.get_template("results.md.j2").render(names)

    def fresh(block: re.Match[str]) -> str:
        text = environment.get_template(f"blocks/{block[2]}.md.j2").render(names)
        return f"{block[1]}\n{text.strip()}\n\n{block[3]}"

    for page in [root / "README.md", *sorted((root / "docs").glob("*.md"))]:
        if page.name != "results.md" and BLOCK.search(page.read_text()):
            yield page, BLOCK.sub(fresh, page.read_text())


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the pages, or compare them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a page is not up to date")
    options = parser.parse_args(arguments)
    stale = [(page, text) for page, text in pages() if not page.exists() or page.read_text() != text]
    for page, text in stale:
        if not options.check:
            page.write_text(text)
        print(f"{page.relative_to(ROOT)}: {'not up to date' if options.check else 'written'}")
    if options.check and stale:
        sys.exit("Run python -m benchmarks.tools.results.")


if __name__ == "__main__":
    main()
