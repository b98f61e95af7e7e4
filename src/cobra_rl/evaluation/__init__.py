"""Metrics of the vision module, the world model and agents. Nothing is trained here but the probes.

Axes: as in docs/architecture.md, but B scenes, E episodes played side by side, S sprites of all scenes.
"""
