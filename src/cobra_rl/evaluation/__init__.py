"""How well the agent's parts do what they are for: numbers only. It reads models and trains none but its own probes.

Axes: B scenes, E episodes played side by side, N sprites of a scene, S sprites of all scenes, K slots, M latents,
P proposals, A action dimension, H W C image.
"""

from cobra_rl.evaluation.vision import Scenes, evaluate_suite, evaluate_vision, fixed_scenes, quick_scores

__all__ = ["Scenes", "evaluate_suite", "evaluate_vision", "fixed_scenes", "quick_scores"]
