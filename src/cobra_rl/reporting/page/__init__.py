"""One page that tells the story of the agent, from pixels to solved tasks: `cobra report`."""
