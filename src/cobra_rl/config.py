"""Presets are instances of the same frozen dataclasses; no code branches on the name of a preset.

`debug` takes seconds (for tests), `laptop` trained the shipped weights on two CPU cores, `learnt` does without what
`laptop` builds in (latents are free, and nothing is told of clicks and pushes), `paper` has the paper's own numbers,
for a GPU. Every field can be set from the command line, such as `--config.model.latents 16`; the comment behind a field
is its help text there.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from cobra_rl.bounds import Bounds, Checked, Count, NonNegative, Positive, Share
from cobra_rl.models.actor_critic import ActorCriticConfig
from cobra_rl.models.curiosity import CuriosityConfig
from cobra_rl.models.exploration import ExplorationConfig
from cobra_rl.models.monet import MonetConfig
from cobra_rl.models.planner import PlannerConfig
from cobra_rl.models.reward import ObjectConfig, RelationConfig, RewardConfig
from cobra_rl.models.transition import LawConfig, TransitionConfig
from cobra_rl.models.vision import VisionModelConfig
from cobra_rl.parts import CLASS, PartConfig, name_of, short_name

MOST_SEEDS = 16  # seeds that are learnt side by side, unless asked otherwise

Batch = Annotated[int, Bounds(1, 65_536)]
Schedule = Annotated[tuple[tuple[Share, float], ...], Bounds(1, 100)]  # (share of the run, value), linear in between


@dataclass(frozen=True)
class Stage(Checked):
    """A part of the curriculum: vision trains on scenes with 1 to `sprites` sprites and uses `slots` slots."""

    until: Share  # share of the run at which the stage ends
    sprites: Count  # largest number of sprites in a scene
    slots: Count | None = None  # slots that the model uses; None: all of them


@dataclass(frozen=True)
class TrainingConfig(Checked):
    """What the training of the vision module and that of the exploration phase have in common."""

    older_names: ClassVar[Mapping[str, str]] = {"average": "ema_decay", "first": "min_replay_size"}

    batch: Batch = 16  # images, or transitions, per gradient step
    decay_from: Share = 1.0  # share of the run after which the learning rate falls (cosine schedule)
    final_rate: Share = 0.03  # final learning rate, as a share of learning_rate
    clip: NonNegative = 0.0  # gradients are clipped to this global norm; 0: no clipping
    evaluate_every: Count = 5000  # steps between two validations; each also saves a checkpoint
    validation_scenes: Batch = 256  # number of scenes in a validation


@dataclass(frozen=True)
class VisionConfig(TrainingConfig):
    """Training of the vision module. The defaults are the paper's."""

    model: VisionModelConfig = dataclasses.field(default_factory=MonetConfig)
    steps: Count = 700_000  # gradient steps; schedules are relative to this number
    optimiser: Literal["rmsprop", "adam", "muon"] = "rmsprop"  # optimiser; muon: Adam for what is no matrix
    learning_rate: Positive = 1e-4  # learning rate after the warm-up
    warmup: Annotated[int, Bounds(0, 10**8)] = 0  # steps during which the learning rate rises linearly from 0
    ema_decay: Share = 0.999  # decay of the weights' moving average, which is evaluated and saved (not in the paper)
    beta: Schedule = ((0.0, 0.5),)  # weight of the latents' KL: pairs (share of the run, value), linear in between
    gamma: Schedule = ((0.0, 0.5),)  # weight of the masks' KL: pairs (share of the run, value)
    stages: Annotated[tuple[Stage, ...], Bounds(1, 100)] = (Stage(1.0, 6),)
    """Curriculum over the number of sprites and slots."""


_LAPTOP_MODEL = MonetConfig(
    latents=12, rgb_scale=(1.0, 1.0, 1.0), attention_channels=(16, 32, 48), attention_window=32,
    encoder_window=24, encoder_hidden=64, decoder_width=32, decoder_patch=2,
)  # fmt: skip
_FREE_MODEL = dataclasses.replace(
    _LAPTOP_MODEL, latents=8, encoder_hidden=128, decoder_width=64, decoder_frame="slot", loss_patches=256
)
_DEBUG_MODEL = dataclasses.replace(  # MONet's own attention and encoder: they compile in a fraction of the time
    _LAPTOP_MODEL, slots=3, attention_channels=(2,), attention_window=0, attention_mlp=4,
    encoder_window=0, encoder_hidden=16, decoder_width=8, decoder_layers=1,
)  # fmt: skip

VISION: dict[str, VisionConfig] = {
    "paper": VisionConfig(),
    "laptop": VisionConfig(
        model=_LAPTOP_MODEL, steps=12_000, batch=8,
        optimiser="adam", learning_rate=2.5e-3, warmup=200, decay_from=0.3, clip=5000.0, ema_decay=0.998,
        beta=((0.2, 0.1), (0.45, 0.5)), gamma=((0.2, 0.5), (0.45, 1.0)),
        stages=(Stage(0.06, 2, 4), Stage(0.11, 4, 6), Stage(1.0, 6)),
        evaluate_every=500,
    ),
    "learnt": VisionConfig(
        model=_FREE_MODEL, steps=12_000, batch=8,
        optimiser="muon", learning_rate=3e-3, warmup=200, decay_from=0.3, clip=5000.0, ema_decay=0.998,
        beta=((0.2, 0.1), (0.45, 0.5)), gamma=((0.2, 0.5), (0.45, 1.0)),
        stages=(Stage(0.08, 2, 4), Stage(0.15, 4, 6), Stage(1.0, 6)),
        evaluate_every=500,
    ),
    "debug": VisionConfig(
        model=_DEBUG_MODEL, steps=24, batch=2, optimiser="adam", learning_rate=1e-3, stages=(Stage(1.0, 2),),
        evaluate_every=8, validation_scenes=8,
    ),
}  # fmt: skip


@dataclass(frozen=True)
class ExploreConfig(TrainingConfig):
    """Training of the transition model and the exploration policy, in tandem. The defaults are the paper's."""

    transition: TransitionConfig = dataclasses.field(default_factory=TransitionConfig)
    exploration: ExplorationConfig = dataclasses.field(default_factory=ExplorationConfig)
    curiosity: CuriosityConfig = dataclasses.field(default_factory=CuriosityConfig)
    curious: bool = True  # actors follow the exploration policy; else they act at random, and only T is trained
    steps: Count = 500_000  # updates of the learner; schedules are relative to this number
    optimiser: Literal["adam", "muon"] = "adam"  # optimiser of all networks; muon: Adam for what is no matrix
    learning_rate: Positive = 3e-4  # learning rate of all networks
    ema_decay: Share = 0.0  # decay of the weights' moving average, which is evaluated and saved; 0: no average
    samples: Annotated[int, Bounds(1, 1024)] = 1  # samples of u per scene in an update of the exploration policy
    change_cost: Schedule = ((0.0, 1.0),)  # cost of |Delta| in T's loss, in the unit of L_T: (share of the run, value)
    click_cost: Schedule = ((0.0, 210.0),)  # cost of deforming an action, or only its click (exploration.motion_cost)
    capacity: Count = 100_000  # transitions that the replay holds
    min_replay_size: Count = 1000  # transitions in the replay before learning begins
    lattice: Annotated[int, Bounds(1, 64)] = 1
    """n: the pixel error is estimated from every n-th patch in both directions; 1: from all pixels."""
    priority: Schedule = ((0.0, 1.0),)  # alpha: transitions are sampled in proportion to L_T^alpha
    importance: Schedule = ((0.0, 1.0),)  # beta of the importance weights; 1 fully corrects for prioritised sampling
    uniform: Share = 0.0  # share of the actors' actions that are uniformly random
    envs: Batch = 16  # number of environments in this process, if actors are local
    updates: Annotated[int, Bounds(1, 100_000)] = 1  # learner updates per step of the (local) actors


EXPLORE: dict[str, ExploreConfig] = {
    "paper": ExploreConfig(),
    "laptop": ExploreConfig(
        transition=LawConfig(hidden=(256, 256, 256), error_unit=10.0, place_cost=5.0),
        exploration=ExplorationConfig(net="per_slot", motion_cost=100.0, scale_penalty=1e4, choice_entropy=20.0),
        steps=6000, batch=64, learning_rate=1e-3, decay_from=0.15, clip=1000.0, ema_decay=0.995,
        change_cost=((0.0, 30.0),), click_cost=((0.15, 2.0), (0.4, 30.0)),
        capacity=80_000, priority=((0.2, 1.0), (0.35, 0.1)), importance=((0.1, 0.5), (0.25, 1.0)), lattice=2,
        uniform=0.2, envs=48, updates=4, evaluate_every=500,
    ),
    "learnt": ExploreConfig(
        transition=TransitionConfig(hidden=(256, 256, 256), loss="slots", jump=0.3),
        exploration=ExplorationConfig(net="per_slot", relative=True, choice_entropy=0.1, scale_penalty=50.0),
        steps=6000, batch=64, optimiser="muon", learning_rate=3e-3, decay_from=0.2, final_rate=0.01, ema_decay=0.995,
        change_cost=((0.0, 0.0),), click_cost=((0.0, 0.15), (0.15, 0.3), (0.3, 0.6)),
        capacity=200_000, priority=((0.1, 0.4), (0.2, 0.1)), importance=((0.1, 0.5), (0.25, 1.0)),
        uniform=0.2, envs=48, updates=2, evaluate_every=500,
    ),
    "debug": ExploreConfig(
        transition=LawConfig(hidden=(16,), error_unit=30.0, law=8),
        exploration=ExplorationConfig(net="per_slot", hidden=(16,)),
        steps=24, batch=4, learning_rate=1e-3, capacity=64, min_replay_size=8, envs=4, updates=2,
        evaluate_every=8, validation_scenes=8,
    ),
}  # fmt: skip


@dataclass(frozen=True)
class AgentConfig(PartConfig):
    """The configuration of an agent that learns a task."""

    kind: ClassVar[str] = "agent"
    envs: ClassVar[int] = 1  # environments that each seed steps side by side
    report_every: ClassVar[int] = 100  # environment steps between two lines of the log
    save_every: ClassVar[int] = 500  # environment steps between two checkpoints
    patience: ClassVar[float] = 0.0  # share of more episodes that must follow a failed confirmation of 90 % success
    value: ClassVar[bool] = False  # whether it learns values instead of rewards
    memory_option: ClassVar[str] = "--config.memory"  # what to reduce if the agent needs too much memory

    reward_unit: Positive = 10.0  # rewards are divided by this for learning (not in the paper)
    reward_cap: float | None = None  # rewards are clipped here for learning; above it a task is solved anyway

    @classmethod
    def resolve(cls, data: Mapping[str, Any], where: str) -> tuple[type, dict[str, Any]]:
        """Find the class of a saved configuration; those of version 0.2 name it as `agent`, or not at all."""
        entries = dict(data)
        if CLASS not in entries:
            entries[CLASS] = "mpo" if "features" in entries else entries.pop("agent", "cobra")
        return super().resolve(entries, where)

    @property
    def name(self) -> str:
        """The name of the agent, in results and folders."""
        return short_name(name_of(self))


@dataclass(frozen=True)
class CobraConfig(AgentConfig):
    """COBRA in the task phase: Algorithm 1. The defaults are the paper's, where it gives them."""

    older_names: ClassVar[Mapping[str, str]] = {"average": "ema_decay", "dreams": "imagined_fraction"}

    reward: RewardConfig = dataclasses.field(default_factory=RelationConfig)
    planner: PlannerConfig = dataclasses.field(default_factory=PlannerConfig)
    epsilon: Share = 0.2  # share of random choices among the proposals, while training
    updates: Annotated[int, Bounds(1, 100_000)] = 10  # N: gradient steps per environment step
    batch: Batch = 16  # remembered steps per gradient step
    learning_rate: Positive = 1e-3  # learning rate of the reward predictor
    weight_decay: NonNegative = 0.0  # weight decay of AdamW
    ema_decay: Share = 0.0  # decay of the weights' moving average, which is evaluated and saved; 0: none (the paper)
    imagined_fraction: Share = 0.0  # share of remembered scenes that T imagined instead (not in the paper)
    value: bool = False  # pyright: ignore[reportIncompatibleVariableOverride]
    """Learn to predict values (for sparse rewards) instead of rewards."""
    discount: Share = 0.9  # discount factor of the values
    target_every: Count = 50  # environment steps between two updates of the value predictor's target network
    wait_for_reward: bool = False  # choose at random among the proposals until the first reward that is not 0
    memory: Count = 30_000  # number of steps that are remembered; 30,000 is the paper's longest run

    @staticmethod
    def upgrade(data: Mapping[str, Any]) -> dict[str, Any]:
        """Turn a planner of version 0.2, which was a name beside its fields, into what it is now."""
        entries = dict(data)
        if isinstance(entries.get("planner"), str):
            fields = ("proposals", "depth") if entries["planner"] == "shooting" else ("proposals",)
            options = {name: entries[name] for name in fields if name in entries}
            entries["planner"] = {CLASS: entries["planner"]} | options
            entries = {name: value for name, value in entries.items() if name not in ("proposals", "depth")}
        return entries


COBRA: dict[str, CobraConfig] = {
    "paper": CobraConfig(),
    "laptop": CobraConfig(
        reward=ObjectConfig(),
        batch=32,
        ema_decay=0.995,
        imagined_fraction=0.5,
        learning_rate=3e-3,
        weight_decay=0.4,
        reward_cap=5.0,
    ),
    "debug": CobraConfig(
        reward=ObjectConfig(pair_layers=(16,), object_layers=(16, 16)),
        planner=PlannerConfig(8),
        updates=2,
        batch=4,
        memory=1000,
    ),
}


@dataclass(frozen=True)
class MpoConfig(AgentConfig):
    """MPO, the paper's model-free baseline. The defaults are the paper's, where it gives them."""

    older_names: ClassVar[Mapping[str, str]] = {"first": "warmup_steps"}
    report_every: ClassVar[int] = 1280
    patience: ClassVar[float] = 0.05
    memory_option: ClassVar[str] = "--config.capacity"

    features: Literal["pixels", "slots"] = "pixels"  # what actor and critic see: pictures, or the world model's slots
    policy: Literal["raw", "deformed"] = "raw"  # raw actions, or those that the exploration policy deforms
    networks: ActorCriticConfig = dataclasses.field(default_factory=ActorCriticConfig)
    epsilon: Positive = 0.2  # bound on the KL of the E-step
    epsilon_penalty: Positive = 1e-3  # the same for the penalty on actions outside of [0, 1] (not in the paper)
    epsilon_mean: Positive = 1e-2  # bound on the KL of the policy's mean, divided among the action dimensions
    epsilon_scale: Positive = 1e-5  # bound on the KL of the policy's scale, divided in the same way
    first_duals: tuple[float, float, float] = (1.0, 1.0, 10.0)  # initial eta, alpha_mean, alpha_scale; before softplus
    samples: Annotated[int, Bounds(1, 1024)] = 20  # actions sampled for each scene of a batch
    discount: Share = 0.99  # discount factor
    target_every: Count = 200  # updates between two copies of the networks to the target networks
    batch: Batch = 512  # transitions per update
    replay_ratio: Positive = 2.0  # transitions sampled for learning per environment step
    learning_rate: Positive = 3e-4  # learning rate of actor and critic
    dual_rate: Positive = 1e-2  # learning rate of the temperatures and Lagrange multipliers
    capacity: Count = 1_000_000  # transitions that the replay holds
    warmup_steps: Count = 1000  # environment steps before learning begins
    envs: Batch = 32  # pyright: ignore[reportIncompatibleVariableOverride]
    """Environments side by side in this process."""
    save_every: Count = 20_000  # pyright: ignore[reportIncompatibleVariableOverride]
    """Environment steps between two checkpoints."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.capacity < self.envs:
            raise ValueError(f"capacity of MpoConfig is {self.capacity}; it must be at least envs ({self.envs}).")

    @property
    def name(self) -> str:
        """The name of this baseline, one of four, in results and folders."""
        return BASELINES[self.features, self.policy]


BASELINES = {  # the paper's "MPO raw" and "MPO handheld", and the two in between
    ("pixels", "raw"): "mpo_raw",
    ("slots", "raw"): "mpo_features",
    ("pixels", "deformed"): "mpo_policy",
    ("slots", "deformed"): "mpo_handheld",
}

MPO: dict[str, MpoConfig] = {
    "paper": MpoConfig(),
    "laptop": MpoConfig(
        networks=ActorCriticConfig(
            critic_slot_layers=(128, 128), critic_global_layers=(128,),
            channels=(64, 32), patches=(4, 2), shrink=2, shared=True,
        ),
        epsilon_mean=5e-2, epsilon_scale=1e-3, samples=16, discount=0.95, target_every=25, batch=256,
        learning_rate=1e-3, replay_ratio=8.0, reward_cap=5.0, capacity=200_000, envs=64,
    ),
    "debug": MpoConfig(
        networks=ActorCriticConfig(
            actor_slot_layers=(8,), actor_global_layers=(8,), critic_slot_layers=(8,), critic_global_layers=(8,),
            channels=(4,), hidden=(8,), shrink=4,
        ),
        samples=4, target_every=2, batch=8, replay_ratio=4.0, capacity=64, warmup_steps=8, envs=4, save_every=40,
    ),
}  # fmt: skip

COBRA["learnt"] = COBRA["laptop"]
MPO["learnt"] = MPO["laptop"]
AGENTS: Mapping[str, Mapping[str, AgentConfig]] = {"cobra": COBRA, "mpo": MPO}  # presets by agent
