"""How well the agent's parts do what they are for: numbers only. It reads models and trains none but its own probes.

Axes: as in docs/design.md, but B scenes, E episodes played side by side, S sprites of all scenes.
"""
