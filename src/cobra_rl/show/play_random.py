"""Random play as a GIF, so that a newcomer sees the world in ten seconds."""

import jax
import jax.numpy as jnp
import numpy as np

from cobra_rl.show.films import Frame, beside, picture
from cobra_rl.spriteworld import Spriteworld, make
from cobra_rl.spriteworld.base import Environment, auto_reset
from cobra_rl.spriteworld.names import MODES, SUITE, TASKS


def play(env: Environment, *, steps: int, seed: int, size: int, click_on_sprites: bool) -> list[Frame]:
    """Film random play: each frame shows a state, the hidden goals and the action about to be taken.

    Actions are uniform; with `click_on_sprites` they click on the centre of a random sprite, if there are any.
    """

    def turn(state, key):
        act_key, step_key, reset_key = jax.random.split(key, 3)
        action_key, sprite_key = jax.random.split(act_key)
        action = jax.random.uniform(action_key, (env.action_size,))
        if click_on_sprites and isinstance(env, Spriteworld):
            sprite = jax.random.categorical(sprite_key, jnp.where(state.sprites.alive, 0.0, -jnp.inf))
            action = action.at[:2].set(state.sprites.position[sprite])
        step = env.advance(step_key, state, action)
        return auto_reset(env, reset_key, step), (state, action)

    @jax.jit
    def episodes(key):
        keys = jax.random.split(key, steps + 1)
        return jax.lax.scan(turn, env.initial(keys[0]), keys[1:])[1]

    states, actions = jax.device_get(episodes(jax.random.key(seed)))
    return [picture(env, jax.tree.map(lambda leaf, t=t: leaf[t], states), size, actions[t]) for t in range(steps)]


def play_all(*, variant: str, steps: int, seed: int, size: int, click_on_sprites: bool) -> list[Frame]:
    """Film all environments of the suite side by side, captioned: train mode above, test mode below."""
    rows = []
    for mode in MODES:
        films = {}
        for index, task in enumerate(TASKS):
            env = make(task, mode, variant)
            frames = play(env, steps=steps, seed=seed + index, size=size, click_on_sprites=click_on_sprites)
            name = SUITE[task].title.removeprefix("goal finding, ")
            films[f"{name}, {mode}"] = frames
        rows.append(beside(films))
    return list(np.concatenate(rows, axis=1))
