"""Agents, which choose actions: COBRA, the explorer and the model-free baselines. docs/design.md defines the axes."""
