"""The functional core: purity, batches, episodes, pictures and bad input."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cobra_rl import spriteworld

ENVS = [
    ("exploration", "train", "paper"),
    ("sorting", "train", "released"),
    ("goal_finding_more_targets", "test", "paper"),
]


def assert_same_image(one, other):
    """Up to rounding: other compiled code may sum in another order."""
    assert np.abs(np.asarray(one).astype(int) - np.asarray(other).astype(int)).max() <= 1


def rollout(env, key, steps=12):
    keys = jax.random.split(key, steps + 1)
    state, image = env.reset(keys[0])
    images, rewards = [image], []
    for k in keys[1:]:
        action = jnp.concatenate([state.sprites.position[0], jax.random.uniform(k, (2,))])
        state, image, reward, *_ = env.step(k, state, action)
        images.append(image)
        rewards.append(reward)
    return np.stack(images), np.stack(rewards)


def test_same_key_same_trajectory_and_another_key_another():
    env = spriteworld.make("sorting")
    images, rewards = rollout(env, jax.random.key(0))
    again = rollout(env, jax.random.key(0))
    np.testing.assert_array_equal(images, again[0])
    np.testing.assert_array_equal(rewards, again[1])
    assert not np.array_equal(rewards, rollout(env, jax.random.key(1))[1])


@pytest.mark.parametrize(("task", "mode", "variant"), ENVS)
def test_a_batch_is_its_members(task, mode, variant):
    """vmap gives each environment what it gets alone, so none depends on another."""
    env = spriteworld.make(task, mode, variant)
    keys = jax.random.split(jax.random.key(0), 5)
    states, images = jax.vmap(env.reset)(keys)
    actions = jnp.concatenate([states.sprites.position[:, 0], jax.random.uniform(jax.random.key(0), (5, 2))], axis=1)
    batch = jax.jit(jax.vmap(env.step))(keys, states, actions)
    for i in (0, 3):
        state, image = env.reset(keys[i])
        assert_same_image(images[i], image)
        alone = env.step(keys[i], state, actions[i])
        assert_same_image(batch.image[i], alone.image)
        for one, all_ in zip(*(jax.tree.leaves(step._replace(image=None)) for step in (alone, batch)), strict=True):
            np.testing.assert_allclose(one, all_[i], atol=1e-4)  # rewards are up to 50
    assert batch.image.dtype == jnp.uint8
    assert batch.image.shape == (5, 64, 64, 3)
    assert states.sprites.alive.shape[1] == env.spec.capacity


def test_success_terminates_and_time_truncates():
    env = spriteworld.make("goal_finding_new_shape", "train", "released")
    start = spriteworld.state_from_sprites([{"x": 0.5, "y": 0.6, "scale": 0.13}])
    nudge = np.array([0.5, 0.6, 0.5, 0.3])  # 0.05 down: within 0.075 of the goal
    state, _, reward, terminated, truncated, info = env.step(jax.random.key(0), start, nudge)
    assert terminated
    assert not truncated
    assert info["success"]
    assert info["moved"] == 0
    assert reward == pytest.approx(50 * (0.075 - 0.05), abs=1e-4)

    state = start
    for step in range(1, 21):
        state, _, _, terminated, truncated, info = env.step(jax.random.key(0), state, np.array([0.0, 0.0, 0.5, 0.5]))
        assert info["moved"] == -1
        assert not terminated
        assert bool(truncated) == (step == 20)


def test_success_is_not_checked_at_reset_but_after_the_first_step():
    env = spriteworld.make("goal_finding_new_shape", "train", "released")
    at_goal = spriteworld.state_from_sprites([{"x": 0.5, "y": 0.5}])
    _, _, _, terminated, _, info = env.step(jax.random.key(0), at_goal, np.array([0.0, 0.0, 0.5, 0.5]))
    assert terminated
    assert info["success"]


def test_the_front_most_sprite_moves_and_stays_in_the_frame():
    env = spriteworld.make("exploration", "train", "released")
    state = spriteworld.state_from_sprites(
        [{"x": 0.95, "y": 0.5, "c0": 0.1, "c1": 1, "c2": 1}, {"x": 0.93, "y": 0.5, "c0": 0.6, "c1": 1, "c2": 1}], 4
    )
    after, image, *_, info = env.step(jax.random.key(0), state, np.array([0.94, 0.5, 1.0, 0.5]))
    assert info["moved"] == 1
    np.testing.assert_allclose(after.sprites.position[:2], [(0.95, 0.5), (1.0, 0.5)], atol=1e-6)
    assert image[31, 62].argmax() == 2  # the blue one hides the orange one
    np.testing.assert_array_equal(state.sprites.position[1], np.float32([0.93, 0.5]))  # the old state is untouched


def test_padding_is_neither_seen_nor_hit():
    env = spriteworld.make("exploration")
    state = spriteworld.state_from_sprites([], capacity=3)
    after, image, *_, info = env.step(jax.random.key(0), state, np.array([0.5, 0.5, 1.0, 1.0]))
    assert info["moved"] == -1
    assert not image.any()
    np.testing.assert_array_equal(after.sprites.position, state.sprites.position)


@pytest.mark.parametrize(
    "action",
    [
        *([np.nan, 0.5, 0.5, 0.5], [0.5, 0.5, 0.5, np.inf], [0.5, 0.5, 0.5, 1.01], [-0.01, 0.5, 0.5, 0.5]),
        *([0.5] * 3, 0.5, [[0.5] * 4]),
    ],
)
def test_bad_actions_are_refused(action):
    env = spriteworld.make("sorting")
    state, _ = env.reset(jax.random.key(0))
    before = jax.tree.map(np.array, state)
    with pytest.raises(
        ValueError, match=r"An action (must be finite and lie in \[0, 1\]\^4|has numbers of shape \(4,\))"
    ) as error:
        env.step(jax.random.key(0), state, np.array(action))
    assert "\n" not in str(error.value)
    jax.tree.map(np.testing.assert_array_equal, state, before)


def test_a_shape_that_the_environment_cannot_draw_is_refused():
    env, action = spriteworld.make("goal_finding_new_shape"), np.full(4, 0.5, np.float32)
    square, circle = (spriteworld.state_from_sprites([{"shape": shape}]) for shape in ("square", "circle"))
    env.step(jax.random.key(0), square, action)
    with pytest.raises(ValueError, match="does not know the shape circle: it draws square; take an environment"):
        env.step(jax.random.key(0), circle, action)


@pytest.mark.parametrize("bad", [np.nan, 1.5, -0.1])
@pytest.mark.parametrize("index", range(4))
def test_bad_actions_move_nothing_in_compiled_code(index, bad):
    env = spriteworld.make("exploration")
    state = spriteworld.state_from_sprites([{"scale": 0.5}])
    action = jnp.full(4, 0.5).at[index].set(bad)
    after, *_, info = jax.jit(env.step)(jax.random.key(0), state, action)
    assert info["moved"] == -1
    np.testing.assert_array_equal(after.sprites.position, state.sprites.position)


@pytest.mark.parametrize(
    ("call", "allowed"),
    [
        (
            lambda: spriteworld.make("sortin"),
            "choose one of exploration, .*sorting, clustering. Did you mean 'sorting'",
        ),
        (lambda: spriteworld.make("sorting", mode="eval"), "Unknown mode 'eval'; choose one of train, test"),
        (lambda: spriteworld.make("sorting", variant="new"), "Unknown variant 'new'; choose one of paper, released"),
        (lambda: spriteworld.hue_range("pink"), "Unknown colour range 'pink'; choose one of red, blue"),
        (
            lambda: spriteworld.state_from_sprites([{"shape": "heart"}]),
            "shape of sprite 0 is 'heart'; .* one of triangle",
        ),
        (
            lambda: spriteworld.state_from_sprites([{"c0": 1.2}]),
            "c0 of sprite 0 is 1.2; .* from 0.0 to 1.0",
        ),
        (
            lambda: spriteworld.state_from_sprites([{"x": float("nan")}]),
            "x of sprite 0 is nan; .* a finite number",
        ),
        (lambda: spriteworld.state_from_sprites([{"hue": 0.2}]), "unknown factors .* allowed are x, y, shape"),
        (lambda: spriteworld.state_from_sprites([{}, {}], capacity=1), "do not fit a capacity of 1"),
        (
            lambda: spriteworld.state_from_sprites([{"scale": 0.0}]),
            "scale of sprite 0 is 0.0; .* above 0.0 and at most 1.0",
        ),
        (lambda: spriteworld.state_from_sprites([(0.5, 0.5)]), r"Sprite 0 is \(0.5, 0.5\); give a mapping, or all 8"),
        (
            lambda: spriteworld.SpriteDistribution(hue=(0.5, 0.4)),
            "range of hue is .* must not be above",
        ),
        (lambda: spriteworld.SpriteDistribution(saturation=(0.5, 1.4)), "saturation of SpriteDistribution is"),
    ],
)
def test_bad_names_and_factors_are_one_clear_sentence(call, allowed):
    with pytest.raises(ValueError, match=allowed) as error:
        call()
    assert "\n" not in str(error.value)


def test_factors_as_tuples_are_factors_as_mappings():
    row = (0.2, 0.7, "star_5", 30.0, 0.2, 0.1, 0.9, 0.8)
    one = spriteworld.state_from_sprites([row])
    other = spriteworld.state_from_sprites([dict(zip(spriteworld.FACTORS, row, strict=True))])
    jax.tree.map(np.testing.assert_array_equal, one, other)


def test_pictures_for_people():
    env = spriteworld.make("sorting")
    state, _ = env.reset(jax.random.key(0))
    plain = np.asarray(spriteworld.render(state, 256)).astype(int)
    assert plain.shape == (256, 256, 3)
    marked = np.asarray(spriteworld.render(state, 256, goals=env.goals)).astype(int)
    assert len(env.goals) == 5
    changed = np.abs(marked - plain).sum(-1) > 0
    rows, columns = np.nonzero(changed)
    for goal in env.goals:  # each ring lies where its goal is, and nothing else was drawn
        distance = np.hypot((columns + 0.5) / 256 - goal.x, 1 - (rows + 0.5) / 256 - goal.y)
        assert np.sum(np.abs(distance - goal.radius) < 0.01) > 50
    nearest = np.min([np.hypot((columns + 0.5) / 256 - g.x, 1 - (rows + 0.5) / 256 - g.y) for g in env.goals], axis=0)
    assert nearest.max() < 0.09

    action = np.array([0.1, 0.9, 1.0, 0.5], np.float32)  # an arrow from the upper left, to the right
    arrow = np.abs(np.asarray(spriteworld.render(state, 256, action=action)).astype(int) - plain).sum(-1) > 0
    rows, columns = np.nonzero(arrow)
    assert abs(columns.min() / 256 - 0.1) < 0.02
    assert abs(columns.max() / 256 - 0.225) < 0.02
    assert abs(1 - rows.mean() / 256 - 0.9) < 0.02


def test_a_larger_picture_shows_the_same_scene():
    state, image = spriteworld.make("exploration").reset(jax.random.key(3))
    large = np.asarray(spriteworld.render(state, 256)).astype(float)
    shrunk = large.reshape(64, 4, 64, 4, 3).mean((1, 3))
    assert np.abs(shrunk - np.asarray(image)).mean() < 1.0  # over ten seeds: 0.37 with a spread of 0.18


def test_an_environment_of_ones_own():
    """Two stars must be brought to the left: a spec is all it takes."""
    star = spriteworld.SpriteDistribution(shapes=("star_5",), boxes=(((0.6, 0.9), (0.2, 0.8)),), scale=0.2)
    spec = spriteworld.EnvSpec("stars", ((star, star),), spriteworld.FindGoal((0.2, 0.5), shapes=("star_5",)), 30)
    env = spriteworld.Spriteworld(spec)
    state, image = env.reset(jax.random.key(0))
    assert image.any()
    assert (np.asarray(state.sprites.position[:, 0]) > 0.6).all()
    reward, success = env.evaluate(state)
    assert reward < 0
    assert not success
