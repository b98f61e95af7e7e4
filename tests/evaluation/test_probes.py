"""Probes on slots with a known answer."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cobra_rl.evaluation.probes import TURNS, disentanglement, fit_probes, importances, probe_scores
from cobra_rl.spriteworld import SHAPES, Sprites
from cobra_rl.spriteworld.sprites import VERTICES

RNG = np.random.default_rng(0)


def random_sprites(count):
    return Sprites(
        position=jnp.asarray(RNG.random((count, 2)), jnp.float32),
        shape=jnp.asarray(RNG.choice([0, 1, 5], count), jnp.int32),
        angle=jnp.asarray(360 * RNG.random(count), jnp.float32),
        scale=jnp.full(count, 0.13),
        color=jnp.asarray(RNG.random((count, 3)), jnp.float32),
        alive=jnp.ones(count, bool),
    )


def factor_slots(sprites):
    """All factors as an easy code: [S, 10]."""
    turns = 2 * np.pi * np.stack([sprites.color[:, 0], sprites.angle / 360 * TURNS[np.asarray(sprites.shape)]], 1)
    one_hot = np.eye(12)[np.asarray(sprites.shape)][:, [0, 1, 5]]
    parts = [sprites.position, sprites.color[:, 1:2], one_hot, np.cos(turns), np.sin(turns)]
    return np.concatenate(parts, axis=1).astype(np.float32)


def halves(slots, sprites):
    half = len(slots) // 2
    first, second = (jax.tree.map(lambda f, part=part: f[part], sprites) for part in np.split(np.arange(2 * half), 2))
    return slots[:half], first, slots[half:], second


@pytest.fixture(scope="module")
def sprites():
    return random_sprites(3000)


def test_turns_are_the_symmetries_of_the_shapes():
    for shape, turns in enumerate(TURNS):
        if SHAPES[shape] == "circle":
            assert turns == 0
            continue
        corners = np.unique(VERTICES[shape].round(4), axis=0) @ np.array([1, 1j])
        for n in range(2, 13):
            turned = corners * np.exp(2j * np.pi / n)
            same = np.abs(turned[:, None] - corners).min(axis=1).max() < 1e-3
            assert same == (turns % n == 0)


def test_slots_that_say_all(sprites):
    mix = np.linalg.qr(RNG.normal(size=(10, 10)))[0].astype(np.float32)
    fit_slots, fit, slots, test = halves(factor_slots(sprites) @ mix, sprites)
    scores = probe_scores(fit_probes(fit_slots, fit), slots, test)
    assert scores["position_error"] < 1e-4
    assert scores["hue_error"] < 0.01
    assert scores["saturation_error"] < 0.02
    assert scores["shape_accuracy"] > 0.995
    assert scores["angle_error"] < 2.0


def test_slots_that_say_nothing(sprites):
    fit_slots, fit, slots, test = halves(RNG.normal(size=(3000, 8)).astype(np.float32), sprites)
    scores = probe_scores(fit_probes(fit_slots, fit, steps=300), slots, test)
    assert scores["position_error"] == pytest.approx(0.25, abs=0.02)
    assert scores["hue_error"] == pytest.approx(0.25, abs=0.02)
    assert scores["shape_accuracy"] == pytest.approx(1 / 3, abs=0.05)
    assert scores["angle_error"] == pytest.approx((30 + 22.5) / 2, abs=2.0)


def test_the_seed_says_it_all(sprites):
    slots = factor_slots(sprites)
    first, again, other = (probe_scores(fit_probes(slots, sprites, s, steps=20), slots, sprites) for s in (0, 0, 1))
    assert first == again
    assert first != other


def test_constant_factors_and_circles_only():
    sprites = random_sprites(200)
    circles = Sprites(sprites.position, jnp.full(200, 5), sprites.angle, sprites.scale, sprites.color, sprites.alive)
    slots = np.asarray(sprites.position)
    probes = fit_probes(slots, circles, steps=50)
    assert np.isnan(probe_scores(probes, slots, circles)["angle_error"])
    importance = importances(probes, slots, circles)
    assert importance.shape == (2, 4)  # shape and angle do not vary
    np.testing.assert_array_less(0.5, importance[[0, 1], [0, 1]])
    np.testing.assert_allclose(importance[[0, 1], [1, 0]], 0.0, atol=1e-3)
    with pytest.raises(ValueError, match="more scenes"):
        fit_probes(slots[:1], jax.tree.map(lambda f: f[:1], circles))


def test_disentanglement_of_known_importances():
    assert disentanglement(np.eye(4, 3)) == pytest.approx(1.0)  # one latent is not used
    assert disentanglement(np.ones((4, 3))) == pytest.approx(0.0)
    pair = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 2.0], [0.0, 0.0]])  # two latents for one factor
    assert disentanglement(pair) == pytest.approx(1.0)
    assert disentanglement(pair.T) == pytest.approx(0.75)


def test_latents_that_are_factors_are_disentangled_and_mixed_ones_are_not(sprites):
    slots = factor_slots(sprites)
    scores = []
    for mix in (np.eye(10), np.linalg.qr(RNG.normal(size=(10, 10)))[0]):
        fit_slots, fit, mixed, test = halves(slots @ mix.astype(np.float32), sprites)
        scores.append(disentanglement(importances(fit_probes(fit_slots, fit, steps=500), mixed, test)))
    assert scores[0] > 0.8
    assert scores[1] < 0.4
