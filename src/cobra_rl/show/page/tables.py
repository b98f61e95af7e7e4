"""The tables of the report, as HTML: what was measured, what was asked, and the command behind it."""

import html
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from cobra_rl.evaluation.report import EXPLORE_ROWS, VISION_ROWS
from cobra_rl.evaluation.task import or_never
from cobra_rl.report.measured import Measured, Score, of_seeds, score
from cobra_rl.spriteworld import MODES

SHARES = {"alone", "shape_accuracy", "hit_rate", "hit_rate_uniform", "sprites_struck", "split", "shared"}  # in percent
ASKED = {  # what this reproduction was to reach: at least, or at most
    "fg_ari_attention": (">=", 0.95),
    "fg_ari_decoder": (">=", 0.93),
    "alone": (">=", 0.97),
    "mse": ("<=", 0.002),
    "shape_accuracy": (">=", 0.9),
    "hue_error": ("<=", 0.03),
    "hit_rate": (">=", 0.7),
    "sprites_struck": (">=", 0.95),
    "motion_deformation": ("<=", 0.05),
    "octant_least": (">=", 0.5),
    "octant_most": ("<=", 2.0),
    "others_drift": ("<=", 0.005),
    "empty_drift": ("<=", 0.005),
    "ratio_to_encoded": ("<=", 1.5),
    "ratio_to_unchanged": ("<=", 1 / 3),
    "error_correlation": (">=", 0.8),
    "error_correlation_uniform": (">=", 0.8),
}
ASKED_VISION = ASKED | {"position_error": ("<=", 0.01)}
ASKED_EXPLORE = ASKED | {"position_error": ("<=", 0.02)}
IMAGINE = (  # rows of the explore phase's tables
    "position_error",
    "others_drift",
    "empty_drift",
    "ratio_to_encoded",
    "ratio_to_unchanged",
    "rollout_position_error",
)
CURIOUS = tuple(name for name in EXPLORE_ROWS if name not in IMAGINE)
SIGNS = {">=": "≥", "<=": "≤"}
WORDS = {"random": "random", "bound": "knows all"}  # what to compare with
SCENES = ("fg_ari_attention", "fg_ari_decoder", "alone", "shared", "mse", "position_error", "shape_accuracy")


class Missed(NamedTuple):
    """A figure that is not what was asked."""

    name: str
    heading: str
    value: float
    asked: tuple[str, float]


class Row(NamedTuple):
    """A line of a table of tasks."""

    label: str
    result: Measured


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], kind: str = "") -> str:
    """Cells are HTML; the first of each row heads it. Each repeats its column's head, for narrow screens."""
    head = "".join(f'<th scope="col">{text}</th>' for text in heads)
    lines = []
    for first, *others in rows:
        labelled = zip(heads[1:], others, strict=True)
        cells = "".join(
            f'<td data-head="{html.escape(re.sub("<[^>]+>", "", name))}">{cell}</td>' for name, cell in labelled
        )
        lines.append(f'<tr><th scope="row">{first}</th>{cells}</tr>')
    body = "\n".join(lines)
    return (
        f'<div class="scroll" tabindex="0"><table class="{kind}">\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody>\n</table></div>"
    )


def made_by(results: Iterable[Measured]) -> str:
    """The commands behind a table, and where the raw figures lie."""
    commands: dict[str, list[str]] = {}
    for result in dict.fromkeys((result.command, result.source) for result in results):
        commands.setdefault(result[0], []).append(result[1])
    lines = (
        f"<li><code>{html.escape(command)}</code> <span>{html.escape(', '.join(sources))}</span></li>"
        for command, sources in commands.items()
    )
    return f'<ul class="made">{"".join(lines)}</ul>'


def vision_table(vision: Measured) -> str:
    """Held-out exploration scenes."""
    scores = vision.record["figures"]["paper/exploration/train"]
    return _asked_table({"measured": scores}, VISION_ROWS, ASKED_VISION) + made_by([vision])


def scenes_table(vision: Measured) -> str:
    """The first scenes of all environments."""
    places = vision.record["figures"]
    rows = [
        [place.replace("/", ", ").replace("_", " "), *(shown(name, of.get(name)) for name in SCENES)]
        for place, of in places.items()
    ]
    body = table(["scenes", *(prose(VISION_ROWS[name]) for name in SCENES)], rows, "small") + made_by([vision])
    return f"<details><summary>On the scenes of all tasks, in both modes and variants</summary>\n{body}</details>\n"


def explore_table(explore: Measured, random: Measured | None, names: Iterable[str]) -> str:
    """Some figures of the explore phase; beside them, if there are, those of random actors."""
    columns = {"measured": explore.record["figures"]}
    if random:
        columns["random actors"] = random.record["figures"]
    rows = {name: EXPLORE_ROWS[name] for name in names}
    return _asked_table(columns, rows, ASKED_EXPLORE) + made_by([explore] + ([random] if random else []))


def missed(
    scores: Mapping[str, Any], rows: Mapping[str, str], asked: Mapping[str, tuple[str, float]]
) -> Iterator[Missed]:
    """What was asked and not reached."""
    subject = ""
    for name, heading in rows.items():
        subject = subject if heading.startswith("...") else heading  # "..." goes on where the last one stood
        full = heading.replace("...", subject)
        if name in asked and scores.get(name) is not None and not _reached(scores[name], asked[name]):
            yield Missed(name, full, scores[name], asked[name])


def task_table(rows: Sequence[Row]) -> str:
    """A row a result: success in both modes, what to compare it with, and how soon 90 % were reached."""
    heads = ["", "success, train", "success, test", "seeds", "steps to 90\u00a0%", "episodes to 90\u00a0%"]
    lines = [
        [
            html.escape(row.label),
            *(_success(row.result, mode) for mode in MODES),
            f"{len(row.result.record['seeds'])}",
            *(_soon(row.result, name) for name in ("steps_to_90", "episodes_to_90")),
        ]
        for row in rows
    ]
    return table(heads, lines, "stack") + made_by(row.result for row in rows)


def prose(text: str) -> str:
    """Escaped, with the subscripts of symbols such as V_enc."""
    return re.sub(r"\b([A-Za-z])_([A-Za-z]+)", r"\1<sub>\2</sub>", html.escape(text))


def shown(name: str, value: float | list[float] | None) -> str:
    """A figure as a person reads it."""
    if value is None:
        return "-"
    if isinstance(value, list):
        return ", ".join(shown(name, item) for item in value)
    return f"{value:.1%}" if name in SHARES else f"{value:.3g}"


def bound(name: str, asked: tuple[str, float]) -> str:
    """What was asked, as a person reads it."""
    sign, level = asked
    return SIGNS[sign] + "\u00a0" + (f"{level:.0%}" if name in SHARES else f"{level:.3g}")


def _reached(value: float, asked: tuple[str, float]) -> bool:
    return value >= asked[1] if asked[0] == ">=" else value <= asked[1]


def _asked_table(
    columns: Mapping[str, Mapping[str, Any]], rows: Mapping[str, str], asked: Mapping[str, tuple[str, float]]
) -> str:
    """A figure a row; the first column is held against what was asked."""
    measured = next(iter(columns.values()))
    lines = []
    for name, heading in rows.items():
        cells = [shown(name, scores.get(name)) for scores in columns.values()]
        if name in asked and measured.get(name) is not None:
            met = _reached(measured[name], asked[name])
            cells[0] += f' <b class="{"met" if met else "short"}">{"met" if met else "falls short"}</b>'
        lines.append([prose(heading), bound(name, asked[name]) if name in asked else "", *cells])
    return table(["", "asked", *columns], lines)


def _success(result: Measured, mode: str) -> str:
    """In numbers, and as a strip from 0 to 1 that also shows what to compare it with."""
    found = score(of_seeds(result, f"success_{mode}"))
    context = {name: of[mode] for name, of in result.record.get("context", {}).items()}
    text = _with_interval(found, ".1%")
    beside = [", ".join(f"{WORDS[name]} {level:.1%}" for name, level in context.items())]
    if rewards := of_seeds(result, f"normalised_reward_{mode}"):
        beside.append("reward " + _with_interval(score(rewards), ".2f"))
    return text + _strip(found, context) + "".join(f'<span class="beside">{line}</span>' for line in beside)


def _strip(found: Score, context: Mapping[str, float]) -> str:
    low, high = found.interval or (found.mean, found.mean)
    marks = [("band", low, max(high - low, 0.008)), *((name, level - 0.006, 0.012) for name, level in context.items())]
    marks.append(("mean", found.mean - 0.01, 0.02))
    boxes = "".join(
        f'<rect class="{name}" x="{100 * min(max(left, 0.0), 1.0 - width):.2f}" width="{100 * width:.2f}" height="8"/>'
        for name, left, width in marks
    )
    return f'<svg class="strip" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">{boxes}</svg>'


def _soon(result: Measured, name: str) -> str:
    """Over seeds; if some never got there, how many did, and the mean if it is finite all the same."""
    counts = [seed.get(name) for seed in result.record["seeds"]]
    found, reached = score(or_never(counts)), sum(count is not None for count in counts)
    if reached == len(counts):
        return _with_interval(found, ",.0f")
    mean = "" if math.isinf(found.mean) else f"<b>{found.mean:,.0f}</b>, "
    return f"{mean}{reached} of {len(counts)} {'seeds' if len(counts) > 1 else 'seed'} got there"


def _with_interval(found: Score, style: str) -> str:
    if found.interval is None:
        return f"<b>{found.mean:{style}}</b>"
    low, high = found.interval
    return f'<b>{found.mean:{style}}</b> <span class="interval">{low:{style}}-{high:{style}}</span>'
