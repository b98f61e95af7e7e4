"""Random play as a GIF, so that a newcomer sees the world in ten seconds."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from cobra_rl import spriteworld
from cobra_rl.films import beside


def random_action(key: PRNGKeyArray, state: spriteworld.EnvState, click_on_sprites: bool) -> Float[Array, " 4"]:
    """A uniform action; with `click_on_sprites` its click is the centre of a random sprite."""
    action_key, sprite_key = jax.random.split(key)
    action = jax.random.uniform(action_key, (4,))
    if not click_on_sprites:
        return action
    sprite = jax.random.categorical(sprite_key, jnp.where(state.sprites.alive, 0.0, -jnp.inf))
    return action.at[:2].set(state.sprites.position[sprite])


def play(env: spriteworld.Spriteworld, *, steps: int, seed: int, size: int, click_on_sprites: bool) -> list[np.ndarray]:
    """Frames of random play: each shows a state, the hidden goals and the action about to be taken."""

    def turn(state, key):
        action_key, step_key, reset_key = jax.random.split(key, 3)
        action = random_action(action_key, state, click_on_sprites)
        stepped, _, terminated, truncated, _ = env.advance(step_key, state, action)
        done = terminated | truncated
        following = jax.tree.map(lambda new, old: jnp.where(done, new, old), env.initial(reset_key), stepped)
        return following, (state, action)

    @jax.jit
    def episode(key):
        keys = jax.random.split(key, steps + 1)
        return jax.lax.scan(turn, env.initial(keys[0]), keys[1:])[1]

    states, actions = jax.device_get(episode(jax.random.key(seed)))

    def frame(t: int) -> np.ndarray:
        state = jax.tree.map(lambda leaf: leaf[t], states)
        return np.asarray(spriteworld.render(state, size, action=actions[t], goals=env.goals))

    return [frame(t) for t in range(steps)]


def play_all(*, variant: str, steps: int, seed: int, size: int, click_on_sprites: bool) -> list[np.ndarray]:
    """Frames of all environments side by side, captioned: train mode above, test mode below."""
    rows = []
    for mode in spriteworld.MODES:
        films = {}
        for index, task in enumerate(spriteworld.TASKS):
            env = spriteworld.make(task, mode, variant)
            frames = play(env, steps=steps, seed=seed + index, size=size, click_on_sprites=click_on_sprites)
            name = task.removeprefix("goal_finding_").replace("_", " ")
            films[f"{name}, {mode}"] = frames
        rows.append(beside(films))
    return list(np.concatenate(rows, axis=1))
