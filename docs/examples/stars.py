"""A world of one's own: stars, spokes and octagons of several sizes, and a task in it.

Learn to see it, to imagine it and to solve the task (a few seconds each with the debug preset):

    cobra train vision --env docs/examples/stars.py:exploration --preset debug --out runs/stars/vision
    cobra train explore --env docs/examples/stars.py:exploration --preset debug \
        --vision runs/stars/vision --out runs/stars/explore
    cobra solve --env docs/examples/stars.py:task --preset debug \
        --world runs/stars/explore/world --out runs/stars/task

docs/worlds-of-your-own.md explains each line.
"""

import dataclasses

from cobra_rl.spriteworld import EnvSpec, FindGoal, NoReward, SpriteDistribution

GOAL = (0.25, 0.75)
STARS = ("star_4", "star_5")

# One sprite: any of five shapes, any hue, any angle, anywhere, with an area between 0.1^2 and 0.18^2.
anything = SpriteDistribution(
    shapes=(*STARS, "spoke_5", "spoke_6", "octagon"),
    scale=(0.1, 0.18),
    angle=(0.0, 360.0),
)

# Without reward: an episode begins with one to four sprites and lasts ten steps.
exploration = EnvSpec(
    "stars_exploration",
    scenes=tuple((anything,) * count for count in range(1, 5)),
    task=NoReward(),
    max_steps=10,
    motion_noise=0.05,
)

star = dataclasses.replace(anything, shapes=STARS)
distractor = dataclasses.replace(anything, shapes=("spoke_5", "octagon"))

# With reward: bring the star to the goal; the other sprite does not matter.
task = EnvSpec(
    "stars_task",
    scenes=((star, distractor),),
    task=FindGoal(GOAL, shapes=STARS),
    max_steps=20,
    motion_noise=0.05,
)


def task_with_test(mode: str) -> EnvSpec:
    """Return the same task with a robustness test: two distractors instead of one.

    Args:
      mode: "train" or "test".

    Returns:
      The environment of that mode.
    """
    distractors = {"train": 1, "test": 2}[mode]
    return dataclasses.replace(task, scenes=((star, *(distractor,) * distractors),), mode=mode)
