"""Planners choose an action by imagining what it leads to: the paper's one-step search, and random shooting."""

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from cobra_rl.bounds import Bounds
from cobra_rl.models.world import WorldModel
from cobra_rl.parts import PartConfig

Score = Callable[[Float[Array, "P K M"]], Float[Array, " P"]]  # predicted reward of imagined scenes


class Choice(NamedTuple):
    """The result of a planner."""

    action: Float[Array, " A"]  # the action to take
    actions: Float[Array, "P A"]  # all proposed actions
    scores: Float[Array, " P"]  # score of each proposal


@dataclass(frozen=True)
class PlannerConfig(PartConfig):
    """The paper's planner: a search over proposals, one step ahead."""

    kind: ClassVar[str] = "planner"

    proposals: Annotated[int, Bounds(1, 65_536)] = 128  # B: number of actions that are proposed and imagined
    depth: ClassVar[int] = 1  # steps that are imagined


@dataclass(frozen=True)
class ShootingConfig(PlannerConfig):
    """Random shooting: proposals are imagined several steps ahead."""

    depth: Annotated[int, Bounds(1, 64)] = 2  # pyright: ignore[reportIncompatibleVariableOverride]
    """Steps that are imagined."""


@dataclass(frozen=True)
class Planner(abc.ABC):
    """Base class of planners: frozen values without weights, which compiled code may depend on."""

    config: PlannerConfig

    @abc.abstractmethod
    def __call__(self, world: WorldModel, score: Score, slots: Float[Array, "K M"], key: PRNGKeyArray) -> Choice:
        """Choose an action in one scene.

        Args:
            world: The world model, which proposes actions and imagines their outcome.
            score: Predicts the reward, or the value, of imagined scenes [P, K, M].
            slots: The slots of the present scene.
            key: The random key of the proposals.

        Returns:
            The chosen action, and the first action and the score of every proposal.
        """


class OneStep(Planner):
    """The paper's search: imagine each proposal one step ahead, and choose the best."""

    def __call__(self, world: WorldModel, score: Score, slots: Float[Array, "K M"], key: PRNGKeyArray) -> Choice:
        """Choose the first action of the trajectory with the best scene; the paper's are a step long."""
        scenes = jnp.broadcast_to(slots, (self.config.proposals, *slots.shape))
        scores = jnp.full(self.config.proposals, -jnp.inf)
        actions = []
        for propose_key in jax.random.split(key, self.config.depth):
            actions.append(world.sample(scenes, propose_key))
            scenes = world.scenes_after(scenes, actions[-1])
            scores = jnp.maximum(scores, score(scenes))
        return Choice(actions[0][jnp.argmax(scores)], actions[0], scores)


class Shooting(OneStep):
    """Random shooting: imagine several steps ahead, with a new random proposal at each later step."""

    config: ShootingConfig
