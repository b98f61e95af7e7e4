"""Agents, which choose actions: COBRA, the explorer, model-free baselines. docs/architecture.md defines the axes."""
