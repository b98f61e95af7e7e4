"""How well the agent's parts do what they are for: numbers only. It reads models and trains none but its own probes.

Axes: B scenes, E episodes played side by side, N sprites of a scene, S sprites of all scenes, K slots, M latents,
P proposals, A action dimension, H W C image.
"""
