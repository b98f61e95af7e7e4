"""The one record of a step, for every replay, agent and model that learns from steps."""

from typing import Any, NamedTuple, cast

from jaxtyping import Array, Bool, Float


class Transition(NamedTuple):
    """One step of an environment, or several with leading axes. What is not learnt from is left out, as None."""

    observation: Any  # of the scene before the action: slots, or a state of the environment that can be drawn again
    action: Float[Array, "*N A"]
    next_observation: Any  # of the scene after it; in the exploration phase the picture, uint8 [*N, H, W, 3]
    reward: Float[Array, "*N"] = cast(Array, None)  # r_{t+1}, of the scene after the action
    reward_before: Float[Array, "*N"] = cast(Array, None)  # r_t, of the scene before it; 0 in a fresh one
    terminated: Bool[Array, "*N"] = cast(Array, None)  # solved: nothing follows
    truncated: Bool[Array, "*N"] = cast(Array, None)  # out of time
