"""The scene on the page: it is pushed about, arranged and undone, and looked at through the agent's eyes.

Answers are the dictionaries that go to the page as JSON; the methods `on_...` answer the message of that name.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, UInt8

from cobra_rl.config import COBRA
from cobra_rl.models.world import WorldModel
from cobra_rl.play import inspection
from cobra_rl.play.catalogue import LoadedAgent, RewardHead
from cobra_rl.spriteworld import SHAPES, EnvState, NoReward, Sprites, Spriteworld, make, state_from_sprites

CAPACITY = 8  # sprites that there is room for, so that all scenes compile to the same code
UNDO_STEPS = 100  # scenes that are remembered

Answer = dict[str, Any]
Factors = dict[str, Any]  # of a sprite, as `state_from_sprites` takes them


class SceneStage:
    """A scene of an environment, and the world model that looks at it.

    `current_agent` returns the agent that acts and is looked into, as it is at the moment, or None.
    """

    def __init__(self, world: WorldModel, current_agent: Callable[[], LoadedAgent | None]):
        self._world = world
        self._current_agent = current_agent
        self.env = make("exploration")
        self.suite_env = self.env  # of the suite, the one that was last chosen
        self.noisy = True  # whether motion is as noisy as the rules of the environment say
        self._keys = inspection.fresh_keys(jax.random.key(0))
        self._history: list[list[Factors]] = []
        self._show(self._fresh_factors(jax.random.key(0)))
        self._first = self.factors

    @property
    def world(self) -> WorldModel:
        """The world model of the agent that is chosen."""
        agent = self._current_agent()
        return self._world if agent is None else agent.world

    @property
    def noise(self) -> float:
        """The standard deviation of the motion noise along an axis, in frame widths."""
        return self.env.spec.motion_noise if self.noisy else 0.0

    @property
    def slots(self) -> inspection.SceneSlots:
        """The scene as the agent sees it."""
        if self._slots is None:
            self._slots = self.world.encode(self.image[None])[0]
        return self._slots

    @property
    def image(self) -> UInt8[Array, "H W 3"]:
        """The scene as it is drawn for the agent."""
        return inspection.draw_scene(self.sprites, self.world.sizes.image)

    @property
    def reward_head(self) -> RewardHead | None:
        """What the agent that is chosen wants, if there is one that says so."""
        agent = self._current_agent()
        return agent and agent.reward_head

    def scene(self) -> Answer:
        """Tell all about the present scene."""
        reward, success = self.env.evaluate(EnvState(self.sprites, jnp.int32(0)))
        return {
            "type": "scene",
            "sprites": self.factors,
            "success": bool(success),
            "reward": None if isinstance(self.env.spec.task, NoReward) else float(reward),
            "goals": [[goal.x, goal.y, goal.radius, [round(255 * c) for c in goal.rgb]] for goal in self.env.goals],
            "undo": len(self._history),
            "noise": self.noise,
            "noise_of_rules": self.env.spec.motion_noise,
            "expected_reward": self.expected_reward(self.slots),
            "picture": inspection.to_base64(inspection.decode_scene(self.world, self.slots)[0]),
        }

    def expected_reward(self, slots: inspection.SceneSlots) -> float | None:
        """Predict the reward of a scene, if the agent has a reward predictor."""
        head = self.reward_head
        return None if head is None else float(inspection.expected_reward(head, slots))

    def set_scene(self, factors: list[Factors], first: bool = False) -> Answer:
        """Show a scene; `first`: it is where `reset` leads."""
        self._history = [*self._history, self.factors][-UNDO_STEPS:]
        self._show(factors)
        if first:
            self._first = self.factors
        return self.scene()

    def enter(self, env: Spriteworld, seed: int) -> Answer:
        """Show a fresh scene of an environment."""
        self.env = env
        return self.set_scene(self._fresh_factors(jax.random.key(seed)), first=True)

    def on_scene(self, *, task: str, mode: str, variant: str, seed: int) -> Answer:
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
        imagined = inspection.imagine_push(self.world, self.slots, jnp.asarray(action))
        return {
            "type": "imagined",
            "action": action,
            "picture": inspection.to_base64(inspection.to_bytes(imagined.image)),
            "error": float(imagined.error),
            "expected_reward": self.expected_reward(imagined.slots),
        }

    def on_push(self, action: list[float]) -> Answer:
        """Push, and tell what was imagined beside what happened."""
        imagined = inspection.imagine_push(self.world, self.slots, jnp.asarray(action))
        after, moved = inspection.push_sprite(next(self._keys), self.sprites, jnp.asarray(action), noise=self.noise)
        moved = int(moved)
        place = dict(zip("xy", inspection.rounded(np.asarray(after.position)[moved], 4), strict=True))
        before = self.factors
        scene = self.set_scene([sprite | place if n == moved else sprite for n, sprite in enumerate(before)])
        truth = np.asarray(self.image)
        return {
            "type": "pushed",
            "action": action,
            "moved": moved,
            "before": before,
            "scene": scene,
            "picture": inspection.to_base64(inspection.to_bytes(imagined.image)),
            "truth": inspection.to_base64(truth),
            "error": float(imagined.error),
            "true_error": float(np.sum((np.asarray(imagined.image) - truth / 255.0) ** 2)),  # ||V_dec(z) - x||^2
        }

    def on_noise(self, on: bool) -> Answer:
        """Let motion be as noisy as the rules say, or not at all."""
        self.noisy = on
        return self.scene()

    def on_look(self) -> Answer:
        """Tell what the agent sees: masks, each slot's own picture, latents."""
        scene, components = inspection.decode_scene(self.world, self.slots)
        masks = inspection.slot_masks(self.world, self.image)
        return {
            "type": "seen",
            "masks": inspection.to_base64(masks),
            "components": inspection.to_base64(components),
            "background": int(self.world.vision.background(jnp.asarray(masks[None], jnp.float32))[0]),
            "picture": inspection.to_base64(scene),
            "values": inspection.rounded(self.slots, 3),
        }

    def on_redraw(self, slot: int, latents: list[float]) -> Answer:
        """Decode the scene with one slot's latents changed."""
        count, width = self.slots.shape
        if slot >= count or len(latents) != width:
            raise ValueError(f"There are {count} slots with {width} latents each.")
        changed = self.slots.at[slot].set(jnp.asarray(latents))
        scene, components = inspection.decode_scene(self.world, changed)
        return {
            "type": "redrawn",
            "slot": slot,
            "picture": inspection.to_base64(scene),
            "component": inspection.to_base64(components[slot]),
        }

    def on_curiosity(self) -> Answer:
        """Map e_pred over click positions."""
        return {"type": "curiosity"} | inspection.map_to_base64(inspection.curiosity_map(self.world, self.slots))

    def on_proposals(self) -> Answer:
        """Draw the actions that the agent considers, with scores if it wants something."""
        if self.reward_head is not None:
            return {"type": "proposals"} | self.plan()[1]
        actions = self.world.propose(self.slots, next(self._keys), n=COBRA["laptop"].planner.proposals)
        return {"type": "proposals", "actions": inspection.rounded(actions, 4), "scores": None}

    def on_reward_map(self, sprite: int) -> Answer:
        """Map the reward that the agent expects if a sprite stood elsewhere."""
        reward_head = self._required_agent().reward_head
        if reward_head is None:
            raise ValueError("This agent has no reward predictor that could be asked what it wants.")
        if self.world.vision.place is None:
            raise ValueError("This world's vision does not say where a slot is, so that none can be moved.")
        if sprite >= len(self.factors):
            raise ValueError("There is no such sprite.")
        masks = inspection.slot_masks(self.world, self.image)
        slot = inspection.slot_at(masks, self.factors[sprite]["x"], self.factors[sprite]["y"])
        values = inspection.reward_map(reward_head, self.world, self.slots, slot=jnp.int32(slot))
        return {"type": "reward_map", "sprite": sprite} | inspection.map_to_base64(values)

    def plan(self) -> tuple[list[float], Answer]:
        """Let the agent choose: its action, and if it searches, all that it considered."""
        agent = self._required_agent()
        key = next(self._keys)
        if agent.reward_head is None:
            return np.asarray(inspection.act(agent.policy, agent.params, self.image, key=key)).tolist(), {}
        choice = inspection.plan(agent.reward_head, self.world, self.slots, key=key, epsilon=jnp.float32(0.0))
        considered = {"actions": inspection.rounded(choice.actions, 4), "scores": inspection.rounded(choice.scores, 3)}
        return np.asarray(choice.action).tolist(), considered

    def _required_agent(self) -> LoadedAgent:
        """Return the agent that is chosen; raise a ValueError if there is none."""
        agent = self._current_agent()
        if agent is None:
            raise ValueError("No agent is chosen yet: choose one under Watch, or teach one.")
        return agent

    def _fresh_factors(self, key: Array) -> list[Factors]:
        return factors_of(self.env.reset(key)[0].sprites)

    def _show(self, factors: list[Factors]) -> None:
        self.factors = factors
        self.sprites = state_from_sprites(factors, CAPACITY).sprites
        self._slots: inspection.SceneSlots | None = None


def factors_of(sprites: Sprites) -> list[Factors]:
    """Return the sprites of a scene as the page has them, back to front."""
    leaves = jax.device_get(sprites)
    table = np.column_stack([leaves.position, leaves.angle, leaves.scale, leaves.color])[leaves.alive]
    rows = zip(inspection.rounded(table, 4), leaves.shape[leaves.alive], strict=True)
    names = ("x", "y", "angle", "scale", "c0", "c1", "c2")
    return [dict(zip(names, row, strict=True)) | {"shape": SHAPES[shape]} for row, shape in rows]
