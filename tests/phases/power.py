"""A power cut in the middle of a run."""

from contextlib import contextmanager

import pytest


@contextmanager
def power_cut(phase: type, at: int):
    """The process dies before a step of the phase; whatever is done within must come that far."""
    real = phase.step

    def crash(self, state, step):
        if step == at:
            raise RuntimeError("the power is gone")
        return real(self, state, step)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(phase, "step", crash)
        with pytest.raises(RuntimeError, match="power"):
            yield
