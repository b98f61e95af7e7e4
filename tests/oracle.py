"""The real `spriteworld` 1.0.2, made to import and run on current NumPy and Pillow.

Only tests and benchmarks use this: the names it puts back are gone for good reasons.
"""

import contextlib
import importlib
import io
import warnings

import numpy as np
import PIL.Image


class _Cast(dict):
    def __missing__(self, dtype):
        return lambda value: np.asarray(value, dtype)[()]


def _put_names_back() -> None:
    PIL.Image.ANTIALIAS = PIL.Image.LANCZOS
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, value in {"object": object, "int": int, "float": float, "asscalar": lambda a: a.item()}.items():
            if not hasattr(np, name):
                setattr(np, name, value)
        if not hasattr(np, "bool"):
            np.bool = bool
        np.cast = _Cast()


_put_names_back()

from spriteworld import constants, environment, renderers, sprite  # noqa: E402

SHAPES = constants.SHAPES
Sprite = sprite.Sprite


def config(task: str, mode: str) -> dict:
    """The package's own config of a COBRA task."""
    module = importlib.import_module(f"spriteworld.configs.cobra.{task}")
    with contextlib.redirect_stdout(io.StringIO()):  # one of them prints
        return module.get_config(mode)


def make(task: str, mode: str = "train"):
    """The package's environment."""
    return environment.Environment(**config(task, mode))


def renderer(size: int = 64):
    """The package's renderer with the settings of the COBRA configs."""
    return renderers.PILRenderer((size, size), anti_aliasing=5, color_to_rgb=renderers.color_maps.hsv_to_rgb)


def factors(sprites) -> list[dict]:
    """The package's sprites as plain factors, without velocities."""
    return [{k: v if k == "shape" else float(v) for k, v in s.factors.items() if "vel" not in k} for s in sprites]
