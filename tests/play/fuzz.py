"""Messages for the tests: one good example of each type, and as many bad ones as wanted."""

import json
import random

SPRITE = {"x": 0.5, "y": 0.5, "shape": "square", "angle": 0, "scale": 0.13, "c0": 0.95, "c1": 0.9, "c2": 1}
CIRCLE = SPRITE | {"x": 0.2, "y": 0.3, "shape": "circle", "c0": 0.6}
GOAL = {"kind": "goal", "x": 0.25, "y": 0.75, "shapes": ["square"], "colour": "any", "other": "any"}
EXAMPLES = [
    {"type": "scene", "task": "sorting", "mode": "test", "variant": "released", "seed": 3},
    {"type": "fresh", "seed": 0},
    {"type": "reset"},
    {"type": "undo"},
    {"type": "arrange", "sprites": [SPRITE, CIRCLE]},
    {"type": "imagine", "action": [0.5, 0.5, 0.9, 0.5]},
    {"type": "push", "action": [0.5, 0.5, 1, 0]},
    {"type": "noise", "on": False},
    {"type": "look"},
    {"type": "redraw", "slot": 0, "latents": [0.0] * 8},
    {"type": "curiosity"},
    {"type": "proposals"},
    {"type": "reward_map", "sprite": 0},
    {"type": "agent", "name": "shipped:sorting", "mode": "train"},
    {"type": "act"},
    {"type": "teach", "way": "goal", "practice": "canvas", "parts": [GOAL], "resume": False},
    {"type": "learn", "on": True},
    {"type": "try"},
    {"type": "judge", "value": 4.2},
    {"type": "forget"},
    {"type": "keep"},
    {"type": "compare"},
    {"type": "save", "name": "my-agent_2"},
    {"type": "source"},
]
JUNK = (
    None, True, -1, 2**70, 1e400, -0.1, 7.5, float("nan"), "", "x" * 500, "../../etc", "a/b", "none:", [], [[]] * 9, {},
    {"a": 1}, [None] * 4, [float("nan")] * 4, ["square"] * 99, "run:../x", "run:..", "shipped:/", "\x00", "__class__",
)  # fmt: skip


def malformed(count: int, seed: int = 0) -> list[str]:
    """Return so many messages that are to be refused: cut, swapped, lengthened, of other types."""
    rng, found = random.Random(seed), []
    while len(found) < count:
        message = dict(rng.choice(EXAMPLES))
        kind = rng.randrange(6)
        names = [name for name in message if name != "type"]
        if kind == 0:
            text = json.dumps(message)
            found.append(text[: rng.randrange(len(text))])
        elif kind == 1:
            found.append(json.dumps(rng.choice(JUNK)))
        elif kind == 2:
            found.append(json.dumps(message | {"type": rng.choice([*JUNK, "eval", "on_push", "handle"])}))
        elif kind == 3:
            found.append(json.dumps(message | {"more": rng.choice(JUNK)}))
        elif kind == 4 and names:
            message.pop(rng.choice(names))
            found.append(json.dumps(message))
        elif kind == 5 and names:
            wrong = [junk for junk in JUNK if junk not in (True, -1, [])]  # which some field may allow
            found.append(json.dumps(message | {rng.choice(names): rng.choice(wrong)}))
    found[0], found[1] = "[" * 20_000, json.dumps(EXAMPLES[0] | {"task": "x" * 40_000})
    return found
