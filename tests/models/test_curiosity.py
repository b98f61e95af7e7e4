"""A curiosity with a network of its own is trained by its own loss, and by nothing else; the paper's is e_pred."""

import dataclasses
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cobra_rl import parts
from cobra_rl.config import EXPLORE
from cobra_rl.models.curiosity import Curiosity, CuriosityConfig
from cobra_rl.models.nets import Linear
from cobra_rl.models.transition import Imagined, Sizes
from cobra_rl.phases.explore import ExplorePhase
from cobra_rl.runs.worlds import load_vision
from cobra_rl.spriteworld import make


@dataclass(frozen=True)
class MirrorConfig(CuriosityConfig):
    learns: bool = True


class Mirror(Curiosity):
    """Interested in what its network makes of the action, which it learns to be the action itself."""

    net: Linear
    config: MirrorConfig = eqx.field(static=True)

    def __init__(self, config, sizes, key):
        self.net = Linear(sizes.action, sizes.action, key)
        self.config = config

    def __call__(self, slots, action, imagined):
        return self.net(action).sum(-1)

    def loss(self, vision, batch):
        if not self.config.learns:
            return super().loss(vision, batch)
        loss = jnp.mean((self.net(batch.action) - batch.action) ** 2)
        return loss, {"mirror": loss}


def test_the_papers_is_the_error_that_t_expects():
    curiosity = parts.make_part(CuriosityConfig(), Sizes(slots=3, latents=8, action=4, image=64), jax.random.key(0))
    imagined = Imagined(jnp.zeros((2, 3, 8)), jnp.array([1.0, 7.0]))
    np.testing.assert_array_equal(curiosity(imagined.slots, jnp.zeros((2, 4)), imagined), [1.0, 7.0])
    assert not jax.tree.leaves(eqx.filter(curiosity, eqx.is_array))


@pytest.mark.parametrize("learns", [True, False])
def test_its_networks_are_trained_by_its_own_loss_alone(learns, debug_vision, monkeypatch):
    name = parts.absolute_name("mirror.py:Mirror")  # as if it had been loaded from there
    monkeypatch.setitem(parts._own, name, (Mirror, MirrorConfig))
    config = dataclasses.replace(EXPLORE["debug"], curiosity=MirrorConfig(learns))
    phase = ExplorePhase(config, make("exploration"), load_vision(debug_vision), "", 0)
    state = phase.init()
    actions = jax.random.uniform(jax.random.key(0), (100, 4))
    before = np.asarray(state.learner.curiosity.net(actions))
    for step in range(12):
        state, metrics = phase.step(state, step)
    after = np.asarray(state.learner.curiosity.net(actions))
    assert ("mirror" in metrics) == learns
    if learns:
        assert np.mean((after - actions) ** 2) < np.mean((before - actions) ** 2) - 1e-3
    else:
        np.testing.assert_array_equal(after, before)
