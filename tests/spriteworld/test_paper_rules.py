"""The paper variant: what the package does not have, rule by rule."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy

from cobra_rl import spriteworld
from cobra_rl.spriteworld import SHAPES, Clustering, FindGoal

SQUARE = SHAPES.index("square")


@functools.cache
def starts(task: str, mode: str, count: int = 2000) -> spriteworld.Sprites:
    env = spriteworld.make(task, mode)
    states = jax.jit(jax.vmap(env.initial))(jax.random.split(jax.random.key(0), count))
    return jax.tree.map(np.asarray, states.sprites)


@pytest.mark.parametrize("mode", spriteworld.MODES)
@pytest.mark.parametrize("task", spriteworld.TASKS)
def test_colours_and_positions(task, mode):
    sprites = starts(task, mode)
    position, color = sprites.position[sprites.alive], sprites.color[sprites.alive]
    np.testing.assert_array_equal(color[:, 2], 1.0)
    assert 0.3 <= color[:, 1].min() < 0.31
    assert 0.99 < color[:, 1].max() <= 1.0
    assert position.min() >= 0.0
    assert position.max() <= 1.0
    assert position.max() > 0.98
    if (task, mode) != ("goal_finding_new_position", "test"):
        assert position.min() < 0.02
    np.testing.assert_allclose(sprites.scale[sprites.alive], 0.13, rtol=1e-6)


def test_exploration_has_one_to_six_sprites_of_any_orientation_hue_and_shape():
    sprites = starts("exploration", "train")
    counts = np.bincount(sprites.alive.sum(1), minlength=7)
    assert counts[0] == 0
    assert scipy.stats.chisquare(counts[1:]).pvalue > 1e-4
    assert scipy.stats.kstest(sprites.angle[sprites.alive] / 360, "uniform").pvalue > 1e-4
    assert scipy.stats.kstest(sprites.color[sprites.alive][:, 0], "uniform").pvalue > 1e-4
    used = np.bincount(sprites.shape[sprites.alive], minlength=12)
    assert {SHAPES[i] for i in np.flatnonzero(used)} == {"square", "triangle", "circle"}


@pytest.mark.parametrize("mode", spriteworld.MODES)
def test_the_lower_right_quadrant_is_held_out(mode):
    sprites = starts("goal_finding_new_position", mode)
    is_target = sprites.color[..., 0] < 0.45
    assert (is_target.sum(1) == 1).all()
    x, y = sprites.position[is_target].T
    lower_right = (x > 0.5) & (y < 0.5)
    assert lower_right.all() if mode == "test" else not lower_right.any()
    if mode == "train":  # uniform over the other three quadrants; the spread of a share of 2000 is 0.0105 or less
        quadrants = [np.mean((x < 0.5) & (y < 0.5)), np.mean((x < 0.5) & (y > 0.5)), np.mean((x > 0.5) & (y > 0.5))]
        np.testing.assert_allclose(quadrants, 1 / 3, atol=0.04)
    x, y = sprites.position[~is_target].T
    assert np.mean((x > 0.5) & (y < 0.5)) == pytest.approx(0.25, abs=0.04)  # the distractor is anywhere


@pytest.mark.parametrize(
    ("task", "mode", "targets", "distractors"),
    [
        ("goal_finding_more_targets", "train", 1, 2),
        ("goal_finding_more_targets", "test", 2, 2),
        ("goal_finding_more_distractors", "train", 2, 1),
        ("goal_finding_more_distractors", "test", 2, 2),
    ],
)
def test_targets_are_squares(task, mode, targets, distractors):
    sprites = starts(task, mode)
    assert (np.sum(sprites.shape == SQUARE, axis=1) == targets).all()
    assert sprites.shape.shape[1] == targets + distractors
    others = {SHAPES[i] for i in np.unique(sprites.shape)} - {"square"}
    assert others == {"circle", "triangle"}
    hue = sprites.color[..., 0]
    assert hue.max() < 0.5  # hue tells nothing
    assert scipy.stats.ks_2samp(hue[sprites.shape == SQUARE], hue[sprites.shape != SQUARE]).pvalue > 1e-4

    env = spriteworld.make(task, mode)
    blue_square = {"shape": "square", "x": 0.5, "y": 0.5, "c0": 0.6}
    green_circle = {"shape": "circle", "x": 0.1, "y": 0.1, "c0": 0.2}
    reward, success = env.evaluate(spriteworld.state_from_sprites([blue_square, green_circle]))
    assert success
    assert reward == pytest.approx(50 * 0.075)


def test_new_shape_trains_on_squares_and_tests_on_others():
    assert {SHAPES[i] for i in np.unique(starts("goal_finding_new_shape", "train").shape)} == {"square"}
    assert {SHAPES[i] for i in np.unique(starts("goal_finding_new_shape", "test").shape)} == {"circle", "triangle"}


def color_names(hue: np.ndarray) -> np.ndarray:
    names = ("red", "blue", "green", "purple", "yellow")
    inside = np.stack([(hue >= low) & (hue <= high) for low, high in map(spriteworld.hue_range, names)])
    assert (inside.sum(0) == 1).all()
    return np.array(names)[inside.argmax(0)]


def test_sorting_holds_out_red_and_blue():
    pairs = {
        mode: {frozenset(p) for p in color_names(starts("sorting", mode).color[..., 0])} for mode in ("train", "test")
    }
    assert pairs["test"] == {frozenset(["red", "blue"])}
    assert len(pairs["train"]) == 9
    assert not pairs["train"] & pairs["test"]


def test_yellow_and_the_clustering_colours():
    assert spriteworld.hue_range("yellow") == (0.12, 0.22)
    assert spriteworld.hue_range("yellow", "released") == (0.1, 0.2)
    for mode, colors in {"train": ["blue", "green"], "test": ["purple", "yellow"]}.items():
        names = color_names(starts("clustering", mode).color[..., 0])
        assert all(sorted(row) == sorted(colors * 2) for row in names[:100].tolist())
        assert sorted(np.unique(names)) == sorted(colors)


@pytest.mark.parametrize(("task", "bonus"), [("sorting", 5.0), ("clustering", 5.0), ("goal_finding_new_shape", 0.0)])
def test_bonus_on_success(task, bonus):
    """Paper and released rewards differ by the bonus on success, and are equal otherwise."""
    hues = {"sorting": (0.15, 0.32), "clustering": (0.6, 0.32), "goal_finding_new_shape": (0.15, 0.32)}[task]
    spots = {"sorting": [(0.5, 0.5), (0.25, 0.75)], "clustering": [(0.1, 0.1), (0.9, 0.9)]}.get(task, [(0.5, 0.5)] * 2)
    solved = [{"x": x + dx, "y": y, "c0": hue} for hue, (x, y) in zip(hues, spots, strict=True) for dx in (0.0, 0.01)]
    unsolved = [dict(sprite, x=x) for sprite, x in zip(solved, (0.1, 0.9, 0.15, 0.85), strict=True)]
    for sprites, extra in ((solved, bonus), (unsolved, 0.0)):
        state = spriteworld.state_from_sprites(sprites)
        paper, success = spriteworld.make(task).evaluate(state)
        released, _ = spriteworld.make(task, "train", "released").evaluate(state)
        assert success == (sprites is solved)
        assert paper - released == pytest.approx(extra, abs=1e-4)


@pytest.mark.parametrize("task", ["exploration", "sorting"])
def test_motion_noise(task):
    """N(0, 0.05^2) on the displacement of the sprite that moves, and on nothing else."""
    env = spriteworld.make(task)
    state = spriteworld.state_from_sprites([{"x": 0.5, "y": 0.5, "scale": 0.13}, {"x": 0.1, "y": 0.1, "scale": 0.13}])
    keys = jax.random.split(jax.random.key(1), 4000)
    push = jax.jit(jax.vmap(lambda k, a: env.advance(k, state, a).state.sprites.position, in_axes=(0, None)))
    after = np.asarray(push(keys, jnp.array([0.5, 0.5, 0.7, 0.1])))
    noise = after[:, 0] - (np.array([0.5, 0.5]) + 0.25 * np.array([0.2, -0.4]))
    for axis in (0, 1):
        assert scipy.stats.kstest(noise[:, axis] / 0.05, "norm").pvalue > 1e-4
    assert abs(np.corrcoef(noise.T)[0, 1]) < 0.06  # the spread of the correlation of 4000 pairs is 0.016
    assert all(spriteworld.make(other).spec.motion_noise == 0.05 for other in spriteworld.TASKS)
    np.testing.assert_array_equal(after[:, 1], np.float32(0.1))
    missed = np.asarray(push(keys, jnp.array([0.9, 0.9, 0.7, 0.1])))
    np.testing.assert_array_equal(missed, np.broadcast_to(state.sprites.position, missed.shape))


def test_degenerate_clusters_stay_finite():
    task = Clustering(hues=((0.0, 0.4), (0.5, 0.9)))
    at = lambda x, hue: {"x": x, "y": 0.5, "c0": hue}  # noqa: E731
    perfect = spriteworld.state_from_sprites([at(0.2, 0.1), at(0.2, 0.1), at(0.8, 0.6), at(0.8, 0.6)]).sprites
    heap = spriteworld.state_from_sprites([at(0.5, 0.1), at(0.5, 0.1), at(0.5, 0.6), at(0.5, 0.6)]).sprites
    crossed = spriteworld.state_from_sprites([at(0.3, 0.1), at(0.7, 0.1), at(0.4, 0.6), at(0.6, 0.6)]).sprites
    assert np.isfinite(task(perfect)[0])
    assert task(perfect)[1]
    for unsolved in (heap, crossed):  # the centroids coincide: the worst there is
        assert task(unsolved)[0] == pytest.approx(-12.5)
        assert not task(unsolved)[1]


def test_closed_form_clustering():
    """2D / (d1 + d2) for 2 + 2 sprites."""
    points = np.array([(0.1, 0.2), (0.2, 0.2), (0.8, 0.9), (0.8, 0.7)])
    factors = [{"x": x, "y": y, "c0": hue} for (x, y), hue in zip(points, (0.6, 0.6, 0.3, 0.3), strict=True)]
    apart = np.linalg.norm(points[:2].mean(0) - points[2:].mean(0))
    expected = 5 * (2 * apart / (0.1 + 0.2) - 2.5)
    reward, success = spriteworld.make("clustering", "train", "released").evaluate(
        spriteworld.state_from_sprites(factors)
    )
    assert reward == pytest.approx(expected, abs=1e-4)
    assert success


def test_goal_reward_is_linear_in_the_distance():
    task = FindGoal(goal=(0.3, 0.4), multiplier=20.0)
    far = spriteworld.state_from_sprites([{"x": 0.6, "y": 0.8}]).sprites  # a 3-4-5 triangle: distance 0.5
    assert task(far)[0] == pytest.approx(20 * (0.075 - 0.5))
    assert not task(far)[1]
