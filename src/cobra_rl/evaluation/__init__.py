"""How well the agent's parts do what they are for. Reads models, never trains them (but for its own probes)."""

from cobra_rl.evaluation.vision import (
    Scenes,
    Vision,
    evaluate_suite,
    evaluate_vision,
    fixed_scenes,
    quick_scores,
)

__all__ = ["Scenes", "Vision", "evaluate_suite", "evaluate_vision", "fixed_scenes", "quick_scores"]
