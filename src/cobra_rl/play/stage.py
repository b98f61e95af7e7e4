"""The scene on the page: it is pushed about, arranged and undone, and looked at through the agent's eyes.

Answers are the dictionaries that go to the page as JSON; the methods `on_...` answer the message of that name.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from cobra_rl.config import TASK
from cobra_rl.models.world import WorldModel
from cobra_rl.play import mind
from cobra_rl.play.house import Chosen
from cobra_rl.spriteworld.env import EnvState, Spriteworld, make, state_from_sprites
from cobra_rl.spriteworld.sprites import SHAPES, Sprites
from cobra_rl.spriteworld.tasks import NoReward

CAPACITY = 8  # sprites that there is room for, so that all scenes compile to the same code
UNDOS = 100  # scenes that are remembered

Answer = dict[str, Any]
Factors = dict[str, Any]  # of a sprite, as `state_from_sprites` takes them
Slots = Float[Array, "K M"]


class Stage:
    """A scene of an environment, and the world model that looks at it.

    `chosen` returns the agent that acts and is looked into, as it is at the moment, or None.
    """

    def __init__(self, world: WorldModel, chosen: Callable[[], Chosen | None]):
        self._world, self._chosen, self.env = world, chosen, make("exploration")
        self.suite_env = self.env  # of the suite, the one that was last chosen
        self._key = jax.random.key(0)
        self._history: list[list[Factors]] = []
        self._show(self._drawn(jax.random.key(0)))
        self._first = self.factors

    @property
    def world(self) -> WorldModel:
        """The world model of the agent that is chosen."""
        chosen = self._chosen()
        return self._world if chosen is None else chosen.world

    @property
    def slots(self) -> Slots:
        """The scene as the agent sees it."""
        if self._slots is None:
            self._slots = mind.look(self.world, self.sprites)
        return self._slots

    def scene(self) -> Answer:
        """Tell all about the present scene."""
        reward, success = self.env.evaluate(EnvState(self.sprites, jnp.int32(0)))
        goals = [[goal.x, goal.y, goal.radius, [round(255 * c) for c in goal.rgb]] for goal in self.env.goals]
        rewarded = not isinstance(self.env.spec.task, NoReward)
        answer = {"type": "scene", "sprites": self.factors, "success": bool(success)}
        answer["reward"] = float(reward) if rewarded else None
        answer |= {"goals": goals, "undo": len(self._history), "thinks": self.thinks(self.slots)}
        return answer | {"picture": mind.packed(mind.redraw(self.world, self.slots)[0])}

    def thinks(self, slots: Slots) -> float | None:
        """Return the reward that the agent expects in a scene, if it wants anything."""
        chosen = self._chosen()
        return None if chosen is None or chosen.wish is None else float(mind.expected(chosen.wish, slots))

    def set_scene(self, factors: list[Factors], first: bool = False) -> Answer:
        """Show a scene; `first`: it is where `reset` leads."""
        self._history = [*self._history, self.factors][-UNDOS:]
        self._show(factors)
        if first:
            self._first = self.factors
        return self.scene()

    def enter(self, env: Spriteworld, seed: int) -> Answer:
        """Show a fresh scene of an environment."""
        self.env = env
        return self.set_scene(self._drawn(jax.random.key(seed)), first=True)

    def on_scene(self, task: str, mode: str, variant: str, seed: int) -> Answer:
        """Show a fresh scene of the suite."""
        self.suite_env = make(task, mode, variant)
        return self.enter(self.suite_env, seed)

    def on_fresh(self, seed: int) -> Answer:
        """Show a fresh scene of the same environment."""
        return self.enter(self.env, seed)

    def on_reset(self) -> Answer:
        """Go back to the scene as it first was."""
        return self.set_scene(self._first)

    def on_undo(self) -> Answer:
        """Take the last change back."""
        if self._history:
            self._show(self._history.pop())
        return self.scene()

    def on_arrange(self, sprites: list[Factors]) -> Answer:
        """Show sprites that were put there by hand."""
        return self.set_scene(sprites)

    def on_imagine(self, action: list[float]) -> Answer:
        """Tell what a push would do, as T imagines it."""
        foreseen = mind.foresee(self.world, self.slots, jnp.asarray(action))
        answer = {"type": "imagined", "action": action, "picture": mind.packed(mind.to_bytes(foreseen.image))}
        return answer | {"error": float(foreseen.error), "thinks": self.thinks(foreseen.slots)}

    def on_push(self, action: list[float]) -> Answer:
        """Push, and tell what was imagined beside what happened."""
        foreseen = mind.foresee(self.world, self.slots, jnp.asarray(action))
        key, before = self.fresh_key(), self.factors
        after, moved = mind.push(key, self.sprites, jnp.asarray(action), self.env.spec.motion_noise)
        moved, places = int(moved), mind.rounded(after.position, 4)
        place = dict(zip("xy", places[moved], strict=True))
        scene = self.set_scene([sprite | place if n == moved else sprite for n, sprite in enumerate(before)])
        truth = mind.picture(self.sprites, self.world.sizes.image)
        answer = {"type": "pushed", "action": action, "moved": moved, "error": float(foreseen.error)}
        answer |= {"picture": mind.packed(mind.to_bytes(foreseen.image)), "truth": mind.packed(truth), "before": before}
        return answer | {"scene": scene, "true_error": mind.pixel_error(foreseen.image, truth)}

    def on_look(self) -> Answer:
        """Tell what the agent sees: masks, each slot's own picture, latents."""
        scene, components = mind.redraw(self.world, self.slots)
        masks = mind.masks(self.world, self.sprites)
        answer = {"type": "seen", "masks": mind.packed(masks), "components": mind.packed(components)}
        return answer | {"picture": mind.packed(scene), "values": mind.rounded(self.slots, 3)}

    def on_redraw(self, slot: int, latents: list[float]) -> Answer:
        """Decode the scene with one slot's latents changed."""
        count, width = self.slots.shape
        if slot >= count or len(latents) != width:
            raise ValueError(f"There are {count} slots with {width} latents each.")
        changed = self.slots.at[slot].set(jnp.asarray(latents))
        scene, alone = mind.redraw(self.world, changed)
        return {"type": "redrawn", "slot": slot, "picture": mind.packed(scene), "component": mind.packed(alone[slot])}

    def on_curiosity(self) -> Answer:
        """Map e_pred over click positions."""
        return {"type": "curiosity"} | mind.packed_map(mind.curiosity(self.world, self.slots))

    def on_proposals(self) -> Answer:
        """Draw the actions that the agent considers, with scores if it wants something."""
        chosen = self._chosen()
        if chosen is not None and chosen.wish is not None:
            return {"type": "proposals"} | self.plan()[1]
        actions = self.world.propose(self.slots, self.fresh_key(), n=TASK["laptop"].proposals)
        return {"type": "proposals", "actions": mind.rounded(actions, 4), "scores": None}

    def on_wanted(self, sprite: int) -> Answer:
        """Map the reward that the agent expects if a sprite stood elsewhere."""
        wish = self._agent().wish
        if wish is None:
            raise ValueError("This agent has no reward predictor that could be asked what it wants.")
        if self.world.vision.place is None:
            raise ValueError("This world's vision does not say where a slot is, so that none can be moved.")
        if sprite >= len(self.factors):
            raise ValueError("There is no such sprite.")
        masks, at = mind.masks(self.world, self.sprites), self.factors[sprite]
        slot = jnp.int32(mind.slot_at(masks, at["x"], at["y"]))
        found = mind.wanted(wish, self.world, self.slots, slot)
        return {"type": "wanted", "sprite": sprite} | mind.packed_map(found)

    def plan(self) -> tuple[list[float], Answer]:
        """Let the agent choose: its action, and if it searches, all that it considered."""
        agent, key = self._agent(), self.fresh_key()
        if agent.wish is None:
            image = mind.picture(self.sprites, self.world.sizes.image)
            return np.asarray(mind.act(agent.policy, agent.params, image, key)).tolist(), {}
        choice = mind.plan(agent.wish, self.world, self.slots, key, jnp.float32(0.0))
        considered = {"actions": mind.rounded(choice.actions, 4), "scores": mind.rounded(choice.scores, 3)}
        return np.asarray(choice.action).tolist(), considered

    def fresh_key(self) -> Array:
        """Return a random key that was not used before."""
        self._key, key = jax.random.split(self._key)
        return key

    def _agent(self) -> Chosen:
        chosen = self._chosen()
        if chosen is None:
            raise ValueError("No agent is chosen yet: choose one under Watch, or teach one.")
        return chosen

    def _drawn(self, key: Array) -> list[Factors]:
        return factors_of(self.env.reset(key)[0].sprites)

    def _show(self, factors: list[Factors]) -> None:
        self.factors = factors
        self.sprites = state_from_sprites(factors, CAPACITY).sprites
        self._slots: Slots | None = None


def factors_of(sprites: Sprites) -> list[Factors]:
    """Return the sprites of a scene as the page has them, back to front."""
    leaves = jax.device_get(sprites)
    found = []
    for n in np.flatnonzero(leaves.alive):
        numbers = (*leaves.position[n], leaves.angle[n], leaves.scale[n], *leaves.color[n])
        named = zip(("x", "y", "angle", "scale", "c0", "c1", "c2"), numbers, strict=True)
        found.append({name: round(float(value), 4) for name, value in named} | {"shape": SHAPES[leaves.shape[n]]})
    return found
