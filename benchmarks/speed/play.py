"""What `cobra play` promises: how live dragging is, how fast it learns meanwhile, and that both ways of teaching work.

    .venv/bin/python -m benchmarks.speed.play [--parts drag goal hand] [--seeds 3] [--out results/play.json]

drag   in chromium: ms from a pointer's move to the redrawn imagination, at rest and while it learns; learning steps a
       second meanwhile; seconds from "Start teaching" to 27 of 30 episodes, compiling and dragging included
goal   "squares to the upper left" by goal: seconds until 27 of 30 training episodes succeed, and success of 100 greedy
       episodes then. The seconds include compiling.
hand   the same wish by hand: an oracle gives slider values from 1 to 5, in tenths, of the true distance; success of 100
       greedy episodes after so many judgements

Parts that are not asked for are kept from the file. Nothing else should run meanwhile; `load` is the machine's load.
"""

from cobra_rl.cli.process import use_huge_pages

use_huge_pages()

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.tools.page import LEARNT, opened, set_example, until
from benchmarks.tools.record import write
from cobra_rl.cache import keep_compilations
from cobra_rl.evaluation.task import WINDOW, play_episodes, reaches_criterion
from cobra_rl.play.catalogue import AgentCatalogue
from cobra_rl.play.session import Session
from cobra_rl.runs.worlds import load_world
from cobra_rl.spriteworld import FindGoal, Spriteworld

SPRITE = {"angle": 0.0, "scale": 0.13, "c1": 0.9, "c2": 1.0}
SPRITES = [
    SPRITE | {"shape": "square", "c0": 0.95, "x": 0.7, "y": 0.3},
    SPRITE | {"shape": "circle", "c0": 0.6, "x": 0.4, "y": 0.35},
    SPRITE | {"shape": "triangle", "c0": 0.32, "x": 0.75, "y": 0.75},
]
GOAL = {"kind": "goal", "x": 0.25, "y": 0.75, "shapes": ["square"], "colour": "any", "other": "any"}
JUDGEMENTS = (50, 100, 150)


def lesson(catalogue: AgentCatalogue, way: str, seed: int) -> Session:
    """Begin a lesson on the sprites of the example."""
    session = Session(catalogue)
    session._lessons = seed  # of which the random seed is the next
    session.handle({"type": "arrange", "id": None, "sprites": SPRITES})
    session.handle({"type": "teach", "id": None, "way": way, "practice": "canvas", "parts": [GOAL], "resume": False})
    return session


def success(session: Session, env: Spriteworld) -> float:
    """Share of 100 greedy episodes that succeed."""
    learner = session.learner
    assert learner is not None
    params = learner.cobra.params(learner.world, learner.state)
    return float(play_episodes(learner.cobra.policy, params, env, episodes=100, seed=1).success.mean())


def by_goal(catalogue: AgentCatalogue, seed: int) -> dict[str, Any]:
    """Learn until 27 of the last 30 episodes succeeded, at most five minutes."""
    began = time.monotonic()
    session = lesson(catalogue, "goal", seed)
    learner = session.learner
    while not reaches_criterion(learner.successes) and time.monotonic() - began < 300:
        session.tick()
    seconds = time.monotonic() - began
    row = {"seconds": seconds, "steps": learner.count, "won": reaches_criterion(learner.successes)}
    return row | {"greedy_success": success(session, learner.env)}


def by_hand(catalogue: AgentCatalogue, seed: int, env: Spriteworld) -> dict[str, Any]:
    """Judge each scene by the true distance of the square from the goal."""
    session, scores = lesson(catalogue, "hand", seed), {}
    began = time.monotonic()
    for number in range(1, JUDGEMENTS[-1] + 1):
        session.handle({"type": "try", "id": None})
        square = next(sprite for sprite in session.stage.factors if sprite["shape"] == "square")
        distance = float(np.hypot(square["x"] - GOAL["x"], square["y"] - GOAL["y"]))
        session.handle({"type": "judge", "id": None, "value": round(5.0 - 4.0 * min(distance / 0.8, 1.0), 1)})
        if number in JUDGEMENTS:
            scores[str(number)] = success(session, env)
    return {"greedy_success_after": scores, "seconds": time.monotonic() - began}


def drag(seconds: float = 8.0) -> dict[str, Any]:
    """Drag in a real browser, at rest and while the agent learns, to 90 % of its latest 30 episodes."""
    with opened() as page:
        set_example(page)
        found: dict[str, Any] = {"at_rest": _dragged(page, seconds)}
        began = time.monotonic()
        page.click("#teach-start")
        until(page, "cobra.learned?.count > 20")
        first, since = page.evaluate("cobra.learned.count"), time.monotonic()
        found["while_learning"] = _dragged(page, seconds)
        steps = page.evaluate("cobra.learned.count") - first
        found["learning_steps_per_second_while_dragging"] = steps / (time.monotonic() - since)
        first, since = page.evaluate("cobra.learned.count"), time.monotonic()
        time.sleep(seconds)
        steps = page.evaluate("cobra.learned.count") - first
        found["learning_steps_per_second"] = steps / (time.monotonic() - since)
        until(page, LEARNT)
        found["seconds_to_90_percent_on_the_page"] = time.monotonic() - began
    return found


def _dragged(page: Any, seconds: float) -> dict[str, Any]:
    """Drag the square about without letting go; latencies of what was imagined, in ms."""
    page.evaluate("cobra.latencies.length = 0")
    box, began, turn = page.locator("#stage").bounding_box(), time.monotonic(), 0
    x, y = box["x"] + 0.7 * box["width"], box["y"] + 0.7 * box["height"]
    page.mouse.move(x, y)
    page.mouse.down()
    while time.monotonic() - began < seconds:
        turn += 1
        page.mouse.move(x + 40 * np.cos(turn / 5), y + 40 * np.sin(turn / 5))
        time.sleep(0.03)
    page.keyboard.press("Escape")
    page.mouse.move(x, y)
    page.mouse.up()
    values = np.array(page.evaluate("cobra.latencies"))
    return {"median_ms": float(np.median(values)), "p90_ms": float(np.quantile(values, 0.9)), "redrawn": len(values)}


def main() -> None:
    """Measure, and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=("drag", "goal", "hand"), default=["drag", "goal", "hand"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("results/play.json"))
    args = parser.parse_args()
    keep_compilations()
    record = json.loads(args.out.read_text()) if args.out.exists() else {}
    record = {part: record[part] for part in ("drag", "goal", "hand") if part in record}
    catalogue = AgentCatalogue(load_world())
    for part in args.parts:
        before = os.getloadavg()[1]
        if part == "drag":
            found: Any = drag()
        elif part == "goal":
            found = {"seeds": [by_goal(catalogue, seed) for seed in range(args.seeds)], "window": WINDOW}
        else:
            env = Spriteworld(lesson(catalogue, "goal", 0).learner.spec)
            assert isinstance(env.spec.task, FindGoal)
            found = {"seeds": [by_hand(catalogue, seed, env) for seed in range(args.seeds)]}
        record[part] = found | {"load_of_the_machine": [before, os.getloadavg()[1]]}
        print(part, json.dumps(record[part], indent=2), flush=True)
        write(args.out, **record)


if __name__ == "__main__":
    main()
