"""The parts of the report that depend on which results there are: tasks, what falls short, the figures in short."""

import html
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from cobra_rl.evaluation.report import EXPLORE_ROWS, VISION_ROWS
from cobra_rl.report.measured import Measured, Solved, of_seeds, score
from cobra_rl.report.tables import ASKED_EXPLORE, ASKED_VISION, IMAGINE, Row, bound, missed, prose, shown, task_table
from cobra_rl.spriteworld import MODES, TASKS

ENOUGH = 0.9  # success that counts as solved


class Group(NamedTuple):
    """Results that belong together."""

    title: str
    text: str
    figures: tuple[str, ...]
    kinds: Mapping[str, str]  # what was run -> what its rows are called beside the task


GROUPS = (
    Group(
        "Tasks",
        "Success of greedy episodes after learning, in training mode and in test mode.",
        ("performance",),
        {"solve": ""},
    ),
    Group(
        "Beside model-free agents",
        "MPO with the vision module and the exploration policy of this agent (handheld), and without them (raw).",
        (),
        {"solve": "COBRA", "mpo_handheld": "MPO handheld", "mpo_raw": "MPO raw"},
    ),
    Group(
        "Without the exploration policy",
        "The search proposes uniformly random actions instead. All else is the same.",
        ("ablation",),
        {"solve": "with it", "solve-uniform": "without"},
    ),
    Group(
        "Sparse rewards",
        "A reward of 1 on success and nothing before. A value predictor can look ahead; a reward predictor cannot.",
        ("sparse",),
        {"solve-sparse": "value predictor", "solve-sparse-reward": "reward predictor"},
    ),
    Group(
        "The released rules",
        "The same tasks by the rules of the public package, which differ from the paper's.",
        (),
        {"solve-released": ""},
    ),
)


def task_name(task: str) -> str:
    """As a person reads it."""
    return task.replace("goal_finding_", "goal finding: ").replace("_", " ")


def task_sections(solved: Solved, figures: Mapping[str, str]) -> str:
    """A heading, a sentence, figures and a table for each group that has been measured."""
    known = {kind for group in GROUPS for kind in group.kinds}
    others = {kind: kind.partition("-")[2] for kind in solved if kind not in known}
    parts = []
    for group in (*GROUPS, Group("Other runs", "", (), others)):
        rows = list(_rows(group, solved))
        drawn = "".join(figures.get(name, "") for name in group.figures)
        if rows or drawn:
            text = f"<p>{html.escape(group.text)}</p>\n" if group.text else ""
            parts.append(f"<h3>{html.escape(group.title)}</h3>\n{text}{drawn}{task_table(rows) if rows else ''}\n")
    return "".join(parts) or ("<p>No task has been measured here yet: <code>cobra solve all --seeds 5</code>.</p>")


def _rows(group: Group, solved: Solved) -> Iterator[Row]:
    """Task by task; COBRA's own results stand beside others only where there are others."""
    special = [kind for kind in group.kinds if kind != "solve"] or ["solve"]
    for task in TASKS:
        if any(task in solved.get(kind, {}) for kind in special):
            for kind, label in group.kinds.items():
                if result := solved.get(kind, {}).get(task):
                    yield Row(task_name(task) + (f", {label}" if label else ""), result)


def falls_short(vision: Measured | None, explore: Measured | None, solved: Solved) -> str:
    """A list: what was asked and not reached, the tasks that were not solved, and what was not measured."""
    lines = []
    if vision:
        scores = vision.record["figures"]["paper/exploration/train"]
        lines += [(miss, "look") for miss in missed(scores, VISION_ROWS, ASKED_VISION)]
    if explore:
        found = missed(explore.record["figures"], EXPLORE_ROWS, ASKED_EXPLORE)
        lines += [(miss, "imagine" if miss.name in IMAGINE else "curious") for miss in found]
    items = [
        f'<a href="#{place}">{prose(miss.heading)}</a>: {shown(miss.name, miss.value)}, '
        f"asked {bound(miss.name, miss.asked)}."
        for miss, place in lines
    ]
    main = solved.get("solve", {})
    items += [
        f'<a href="#results">{html.escape(task_name(task) + rules)}</a>: {html.escape("; ".join(lines))}.'
        for kind, rules in (("solve", ""), ("solve-released", ", by the released rules"))
        for task, result in solved.get(kind, {}).items()
        if (lines := list(_unsolved(result)))
    ]
    if absent := [task_name(task) for task in TASKS if task != "exploration" and task not in main]:
        items.append(f"Not measured yet: {html.escape(', '.join(absent))}.")
    if not any(kind.startswith("mpo") for kind in solved):
        items.append("The paper's model-free baselines (MPO) have not been run: nothing here is beside another agent.")
    return "\n".join(f"<li>{item}</li>" for item in items)


def _unsolved(result: Measured) -> Iterator[str]:
    """The seeds that never got to 90 %, and the modes whose success is below."""
    seeds, steps = len(result.record["seeds"]), result.record["steps"]
    if never := seeds - len(of_seeds(result, "steps_to_90")):
        yield f"{never} of {seeds} seeds never got to 90\u00a0% within {steps:,} rewarded steps"
    for mode in MODES:
        found = score(of_seeds(result, f"success_{mode}")).mean
        if found < ENOUGH:
            yield f"{found:.1%} success in {mode} mode"


def in_short(vision: Measured | None, explore: Measured | None, solved: Solved) -> str:
    """A few figures at the top; each leads to where its command stands."""
    tiles = []
    if vision:
        scores = vision.record["figures"]["paper/exploration/train"]
        tiles.append(("look", shown("alone", scores["alone"]), "of sprites have a slot to themselves"))
    if explore:
        scores = explore.record["figures"]
        ratio = f"{scores['ratio_to_unchanged']:.1%}"
        tiles.append(("imagine", ratio, "of the pixel error of imagining no change"))
        uniform = shown("hit_rate", scores["hit_rate_uniform"])
        tiles.append(
            ("curious", shown("hit_rate", scores["hit_rate"]), f"of clicks strike a sprite; at random {uniform}")
        )
    if main := solved.get("solve"):
        for mode, text in zip(MODES, ("solved in training mode", "solved in test mode"), strict=True):
            won = sum(score(of_seeds(result, f"success_{mode}")).mean >= ENOUGH for result in main.values())
            tiles.append(("results", f"{won} of {len(main)}", f"tasks {text} (≥\u00a090\u00a0%)"))
    return "\n".join(
        f'<a class="tile" href="#{place}"><b>{html.escape(figure)}</b> <span>{html.escape(text)}</span></a>'
        for place, figure, text in tiles
    )
