"""A power cut in the middle of a run."""

from contextlib import contextmanager

import pytest


@contextmanager
def power_cut(phase: type, at: int):
    """The process dies before a step of the phase; whatever is done within must come that far."""
    real = phase.advance

    def crash(self, state, step, most):
        if step == at:
            raise RuntimeError("the power is gone")
        return real(self, state, step, min(most, at - step) if step < at else most)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(phase, "advance", crash)
        with pytest.raises(RuntimeError, match="power"):
            yield
