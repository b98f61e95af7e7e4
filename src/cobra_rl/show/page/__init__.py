"""One page that tells the story of the agent, from pixels to solved tasks: `cobra report`."""

from cobra_rl.show.page.page import write_report

__all__ = ["write_report"]
