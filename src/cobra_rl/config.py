"""Presets: values of the same frozen dataclasses, never a branch in the code.

`debug` takes seconds (tests), `laptop` is for two CPU cores (what is shipped), `paper` has the paper's own numbers, for
a GPU. Every leaf can be set from the command line, such as `--config.model.latents 16`; the comment behind a field is
its help text there.
"""

import dataclasses
from dataclasses import dataclass
from typing import Annotated, Literal

from cobra_rl.bounds import Bounds, Checked, Count, NonNegative, Positive, Share
from cobra_rl.models.actor_critic import ActorCriticConfig
from cobra_rl.models.exploration import ExplorationConfig
from cobra_rl.models.monet import MonetConfig
from cobra_rl.models.reward import RewardConfig
from cobra_rl.models.transition import LawConfig, TransitionConfig
from cobra_rl.models.vision import VisionModelConfig

Few = Annotated[int, Bounds(1, 64)]
Batch = Annotated[int, Bounds(1, 65_536)]
Schedule = Annotated[tuple[tuple[Share, float], ...], Bounds(1, 100)]  # (share of the run, value), linear in between


@dataclass(frozen=True)
class Stage(Checked):
    """A part of the curriculum: scenes with 1 to `sprites` sprites, explained with `slots` slots."""

    until: Share  # share of the run at which the stage ends
    sprites: Count  # largest number of sprites in a scene
    slots: Count | None = None  # slots that explain a scene; none given: all of the model's


Stages = Annotated[tuple[Stage, ...], Bounds(1, 100)]


@dataclass(frozen=True)
class VisionConfig(Checked):
    """Training of the vision module. The defaults are the paper's."""

    model: VisionModelConfig = dataclasses.field(default_factory=MonetConfig)
    steps: Count = 700_000  # gradient steps; schedules stretch along
    batch: Batch = 16  # images per gradient step
    optimiser: Literal["rmsprop", "adam"] = "rmsprop"  # optimiser of the weights
    learning_rate: Positive = 1e-4  # learning rate after the warm-up
    warmup: Annotated[int, Bounds(0, 10**8)] = 0  # steps during which the learning rate rises
    decay_from: Share = 1.0  # share of the run after which the learning rate falls, as a cosine
    final_rate: Share = 0.03  # learning rate at the end, as a share of the learning rate
    clip: NonNegative = 0.0  # largest norm of the gradient; 0: any
    average: Share = 0.999  # decay of the average of the weights that is evaluated and kept (not in the paper)
    beta: Schedule = ((0.0, 0.5),)  # weight of the latents' KL
    gamma: Schedule = ((0.0, 0.5),)  # weight of the masks' KL
    stages: Stages = (Stage(1.0, 6),)  # curriculum over the number of sprites and slots
    evaluate_every: Count = 5000  # steps between validations (and checkpoints)
    validation_scenes: Batch = 256  # scenes of a validation


_LAPTOP_MODEL = MonetConfig(
    latents=12, rgb_scale=(1.0, 1.0, 1.0), attention_channels=(16, 32, 48), attention_window=32,
    encoder_window=24, encoder_hidden=64, decoder_width=32, decoder_patch=2,
)  # fmt: skip
_DEBUG_MODEL = dataclasses.replace(
    _LAPTOP_MODEL, slots=4, attention_channels=(8, 8), decoder_width=8, decoder_layers=1, encoder_hidden=16
)

VISION: dict[str, VisionConfig] = {
    "paper": VisionConfig(),
    "laptop": VisionConfig(
        model=_LAPTOP_MODEL, steps=12_000, batch=8,
        optimiser="adam", learning_rate=2.5e-3, warmup=200, decay_from=0.3, clip=5000.0, average=0.998,
        beta=((0.2, 0.1), (0.45, 0.5)), gamma=((0.2, 0.5), (0.45, 1.0)),
        stages=(Stage(0.06, 2, 4), Stage(0.11, 4, 6), Stage(1.0, 6)),
        evaluate_every=500,
    ),
    "debug": VisionConfig(
        model=_DEBUG_MODEL, steps=24, batch=4, optimiser="adam", learning_rate=1e-3, stages=(Stage(1.0, 2),),
        evaluate_every=8, validation_scenes=8,
    ),
}  # fmt: skip


@dataclass(frozen=True)
class ExploreConfig(Checked):
    """Training of the transition model and the exploration policy, in tandem. The defaults are the paper's."""

    transition: TransitionConfig = dataclasses.field(default_factory=TransitionConfig)
    exploration: ExplorationConfig = dataclasses.field(default_factory=ExplorationConfig)
    curious: bool = True  # actors follow the exploration policy; otherwise they click at random and only T is trained
    steps: Count = 500_000  # updates of the learner; schedules stretch along
    batch: Batch = 16  # transitions per update
    learning_rate: Positive = 3e-4  # learning rate of both networks
    decay_from: Share = 1.0  # share of the run after which the learning rate falls, as a cosine
    final_rate: Share = 0.03  # learning rate at the end, as a share of the learning rate
    clip: NonNegative = 0.0  # largest norm of the gradient; 0: any
    average: Share = 0.0  # decay of the average of the weights that is evaluated and kept; 0: the last weights
    samples: Annotated[int, Bounds(1, 1024)] = 1  # samples of u for each scene, in an update of the policy
    change_cost: Schedule = ((0.0, 1.0),)  # cost of |Delta|, in squared pixels
    click_cost: Schedule = ((0.0, 210.0),)  # cost of |D| on the position click, in squared pixels per frame width
    capacity: Count = 100_000  # transitions that the replay holds
    first: Count = 1000  # transitions in the replay before learning begins
    lattice: Few = 1  # 2: the pixel error is estimated from every second patch in both directions
    priority: Schedule = ((0.0, 1.0),)  # alpha: transitions are drawn in proportion to L_T^alpha
    importance: Schedule = ((0.0, 1.0),)  # beta: how far importance weights undo the priorities
    uniform: Share = 0.0  # share of the actors' actions that are uniformly random
    envs: Batch = 16  # environments played in this process, if actors are local
    updates: Annotated[int, Bounds(1, 100_000)] = 1  # updates of the learner for each step of the actors
    evaluate_every: Count = 5000  # updates between validations (and checkpoints)
    validation_scenes: Batch = 256  # scenes of a validation


EXPLORE: dict[str, ExploreConfig] = {
    "paper": ExploreConfig(),
    "laptop": ExploreConfig(
        transition=LawConfig(hidden=(256, 256, 256), error_unit=10.0, place_cost=5.0),
        exploration=ExplorationConfig(net="slots", motion_cost=100.0, scale_penalty=1e4, choice_entropy=20.0),
        steps=6000, batch=64, learning_rate=1e-3, decay_from=0.15, clip=1000.0, average=0.995,
        change_cost=((0.0, 30.0),), click_cost=((0.15, 2.0), (0.4, 30.0)),
        capacity=80_000, priority=((0.2, 1.0), (0.35, 0.1)), importance=((0.1, 0.5), (0.25, 1.0)), lattice=2,
        uniform=0.2, envs=48, updates=4, evaluate_every=500,
    ),
    "debug": ExploreConfig(
        transition=LawConfig(hidden=(16,), error_unit=30.0, law=8),
        exploration=ExplorationConfig(net="slots", hidden=(16,)),
        steps=24, batch=4, learning_rate=1e-3, capacity=64, first=8, envs=4, updates=2,
        evaluate_every=8, validation_scenes=8,
    ),
}  # fmt: skip


@dataclass(frozen=True)
class TaskConfig(Checked):
    """The task phase: Algorithm 1. The defaults are the paper's, where it gives them."""

    agent: str = "cobra"  # who learns: a name in AGENTS of phases/task.py
    reward: RewardConfig = dataclasses.field(default_factory=RewardConfig)
    planner: str = "one_step"  # how actions are searched for: a name in agents/planners.py
    proposals: Batch = 128  # B: actions that the planner proposes
    depth: Few = 1  # steps that the planner `shooting` looks ahead
    epsilon: Share = 0.2  # share of random choices among the proposals, while training
    updates: Annotated[int, Bounds(1, 100_000)] = 10  # N: gradient steps per environment step
    batch: Batch = 16  # remembered scenes per gradient step
    learning_rate: Positive = 1e-3  # learning rate of the reward predictor
    weight_decay: NonNegative = 0.0  # weight decay of AdamW
    difference_decay: NonNegative = 0.6  # weight decay of what R_pair makes of differences, if it reads them
    average: Share = 0.0  # decay per gradient step of the average of weights that acts; 0: the latest (the paper)
    dreams: Share = 0.0  # share of remembered scenes that are learnt as T imagined them (not in the paper)
    shuffle: bool = False  # slots of remembered scenes come in a random order: a scene has none
    reward_unit: Positive = 10.0  # rewards are learnt in this unit (not in the paper)
    reward_cap: float | None = None  # reward targets are clipped here; above it a task is solved anyway
    value: bool = False  # learn a value from (sparse) rewards instead of the reward itself
    discount: Share = 0.9  # discount of the value
    target_every: Count = 50  # environment steps between two copies of the value that is bootstrapped from
    wait_for_reward: bool = False  # choose among the proposals at random until the first reward that is not 0
    memory: Count = 30_000  # steps that are remembered; the paper's longest run


TASK: dict[str, TaskConfig] = {
    "paper": TaskConfig(),
    "laptop": TaskConfig(
        reward=RewardConfig(whole=(), difference=True),
        batch=32,
        average=0.995,
        dreams=0.5,
        learning_rate=3e-3,
        weight_decay=0.2,
        shuffle=True,
        reward_cap=5.0,
    ),
    "debug": TaskConfig(reward=RewardConfig(pair=(16, 16), whole=(16,)), proposals=8, updates=2, batch=4, memory=1000),
}


@dataclass(frozen=True)
class BaselineConfig(Checked):
    """MPO, the paper's model-free baseline. The defaults are the paper's, where it gives them."""

    features: Literal["pixels", "slots"] = "pixels"  # what actor and critic see: pictures, or the world model's slots
    policy: Literal["raw", "deformed"] = "raw"  # actions as they are, or deformed by the exploration policy
    networks: ActorCriticConfig = dataclasses.field(default_factory=ActorCriticConfig)
    epsilon: Positive = 0.2  # bound on the KL of the E-step
    epsilon_penalty: Positive = 1e-3  # the same, of the objective to stay within [0, 1] (not in the paper)
    epsilon_mean: Positive = 1e-2  # bound on the KL of the policy's mean, shared by the dimensions of the action
    epsilon_scale: Positive = 1e-5  # bound on the KL of the policy's scale
    first_duals: tuple[float, float, float] = (1.0, 1.0, 10.0)  # temperature, multipliers of mean and scale, at first
    samples: Annotated[int, Bounds(1, 1024)] = 20  # actions drawn in each scene of a batch
    discount: Share = 0.99  # discount of rewards to come
    target_every: Count = 200  # updates between two copies of the target networks
    batch: Batch = 512  # transitions per update
    replay_ratio: Positive = 2.0  # transitions drawn for learning per environment step
    learning_rate: Positive = 3e-4  # learning rate of actor and critic
    dual_rate: Positive = 1e-2  # learning rate of temperatures and multipliers
    reward_unit: Positive = 10.0  # rewards are learnt in this unit
    reward_cap: float | None = None  # rewards are clipped here; above it a task is solved anyway
    capacity: Count = 1_000_000  # transitions that the replay holds
    first: Count = 1000  # environment steps before learning begins
    envs: Batch = 32  # environments played side by side in this process
    save_every: Count = 20_000  # environment steps between two checkpoints

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.capacity < self.envs:
            raise ValueError(f"capacity of BaselineConfig is {self.capacity}; it must be at least envs ({self.envs}).")

    @property
    def name(self) -> str:
        """Which of the four baselines this is, as results call it."""
        return BASELINES[self.features, self.policy]

    @property
    def uses_world(self) -> bool:
        """Whether a world model is used at all."""
        return self.name != "mpo_raw"


BASELINES = {  # the paper's "MPO raw" and "MPO handheld", and the two in between
    ("pixels", "raw"): "mpo_raw",
    ("slots", "raw"): "mpo_features",
    ("pixels", "deformed"): "mpo_policy",
    ("slots", "deformed"): "mpo_handheld",
}

BASELINE: dict[str, BaselineConfig] = {
    "paper": BaselineConfig(),
    "laptop": BaselineConfig(
        networks=ActorCriticConfig(
            slot_critic=(128, 128), slot_critic_whole=(128,),
            channels=(64, 64), patches=(4, 2), shrink=2, shared=True,
        ),
        epsilon_mean=5e-2, epsilon_scale=1e-3, samples=16, discount=0.95, target_every=25, batch=256,
        learning_rate=1e-3, replay_ratio=16.0, reward_cap=5.0, capacity=200_000, envs=64,
    ),
    "debug": BaselineConfig(
        networks=ActorCriticConfig(
            slot_actor=(8,), slot_actor_whole=(8,), slot_critic=(8,), slot_critic_whole=(8,),
            channels=(4,), hidden=(8,), shrink=4,
        ),
        samples=4, target_every=2, batch=8, replay_ratio=4.0, capacity=64, first=8, envs=4, save_every=40,
    ),
}  # fmt: skip
