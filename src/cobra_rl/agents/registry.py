"""The agents that `cobra solve` can train, by the name in `TaskConfig.agent`."""

from collections.abc import Callable, Mapping

from cobra_rl.agents.base import Agent
from cobra_rl.agents.cobra import Cobra
from cobra_rl.config import TaskConfig

AGENTS: Mapping[str, Callable[[TaskConfig], Agent]] = {"cobra": Cobra}  # to add an agent, add a line here


def make_agent(config: TaskConfig) -> Agent:
    """Make the agent that a configuration names; raise a ValueError if there is none of that name."""
    if config.agent not in AGENTS:
        raise ValueError(f"There is no agent {config.agent!r}; choose one of {', '.join(AGENTS)}.")
    return AGENTS[config.agent](config)
