"""A small world, in which MONet as the paper has it can be trained on two CPU cores: 32 x 32 pixels, 1-3 sprites.

Sprites are as many pixels wide as in the suite's pictures of 64 x 64, so that shapes can be told apart. The command is
in docs/reproduction.md, "The paper's vision in small".
"""

from cobra_rl.spriteworld import EnvSpec, NoReward, SpriteDistribution

sprite = SpriteDistribution(scale=0.26, angle=(0.0, 360.0))
exploration = EnvSpec(
    "small_exploration",
    scenes=tuple((sprite,) * count for count in range(1, 4)),
    task=NoReward(),
    max_steps=10,
    motion_noise=0.05,
    shuffle=False,
    image_size=32,
)
