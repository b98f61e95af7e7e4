# %% [markdown]
# # A tour of COBRA
#
# COBRA is an agent that first plays, without any reward, and then solves a task from a few hundred rewarded steps.
# It takes five words to tell how: **look, imagine, explore, want, act**. This tour has a few short cells for each.
#
# The first three were learnt before, without reward, and are shipped with the package. *Want* is learnt here, live.
# All of it takes about two minutes on two CPU cores. Most of that is compilation, so the next time is faster.
#
# Open this file as a notebook in VS Code or with Jupytext, or run it: `python notebooks/tour.py`.

# %%
import dataclasses
import os

import equinox as eqx
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import cobra_rl
from cobra_rl import spriteworld
from cobra_rl.agents.cobra import Cobra, CobraParams, choose
from cobra_rl.config import COBRA
from cobra_rl.reporting.figures import style

STEPS = int(os.environ.get("TOUR_STEPS", 300))  # rewarded steps to learn from
EPISODES = int(os.environ.get("TOUR_EPISODES", 50))  # to play at the end
CLICKS = int(os.environ.get("TOUR_CLICKS", 200))  # to look at, in each scene
FRAME = (0, 1, 0, 1)  # the world's coordinates: (0, 0) is the lower left corner


def show(axes, picture, title=""):
    """Show a picture of a scene, in the world's coordinates."""
    style.show(axes, np.asarray(picture))
    axes.images[-1].set_extent(FRAME)
    axes.set(xlim=FRAME[:2], ylim=FRAME[2:])  # so that nothing drawn over it changes them
    axes.set_title(title, fontsize=9)


def row(pictures, titles, size=2.0):
    """Show pictures side by side and return their axes."""
    shape = {"figsize": (size * len(pictures), size + 0.25), "layout": "constrained", "squeeze": False}
    grid = plt.subplots(1, len(pictures), **shape)[1][0]
    for axes, picture, title in zip(grid, pictures, titles, strict=True):
        show(axes, picture, title)
    return grid


# %% [markdown]
# ## The world
#
# Spriteworld has one to six sprites on black. The agent sees 64 x 64 pixels and nothing else: not what a sprite is, not
# where one is, not how many there are. `render` draws the same scene larger, for people.

# %%
env = spriteworld.make("exploration")
state, image = env.reset(jax.random.key(13))
_ = row([image, spriteworld.render(state, 256)], ["what the agent gets", "for people"], size=2.6)

# %% [markdown]
# An action is four numbers in [0, 1]: where to click (x, y), and where to push what is there. A motion of (0.5, 0.5) is
# none, (1, 0.5) is all the way to the right. A click beside the sprites does nothing, and most of the frame is black.
#
# Each push is a little off, at random. For a fair comparison below, `still` is the same world without this noise.

# %%
still = spriteworld.Spriteworld(dataclasses.replace(env.spec, motion_noise=0.0))
action = np.array([0.43, 0.28, 0.9, 0.9])  # click on the blue square, push up and to the right
after = still.step(jax.random.key(0), state, action)
blue = int(after.info["moved"])  # which sprite it pushed
_ = row([spriteworld.render(state, 256, action=action), after.image], ["the action", "after it"], size=2.6)

# %% [markdown]
# ## Look
#
# The vision module is MONet. Its encoder V_enc turns an image into eight *slots* of twelve numbers (latents) each.
# There is a slot for each thing, and some are left over: their latents are near 0. Nobody told it which pixels make a
# thing.
#
# What was learnt without reward is one *world model*: it can look (`encode`), draw (`decode`), `imagine` and `propose`.

# %%
world = cobra_rl.load_world()
slots = world.encode(image[None])[0]  # one image has no batch axis, so it gets one
print("slots:", slots.shape)
print(np.round(np.asarray(slots), 1))

# %% [markdown]
# The decoder V_dec draws a scene from slots. What it draws from 96 numbers is close to the image: little was lost.

# %%
scene = world.decode(slots[None])
difference = np.abs(np.asarray(scene.image[0]) - np.asarray(image) / 255)
_ = row([image, scene.image[0], difference], ["image", "V_dec(V_enc(image))", "difference"])
print(f"mean squared error: {np.mean(difference**2):.5f}")

# %% [markdown]
# It draws slot by slot. Each slot has a picture of its own, and a mask that says where this picture is seen. Here is
# each slot's picture under its mask. One slot took the background, one took each sprite, the others are empty.

# %%
areas = np.asarray(scene.masks[0].sum((1, 2)))  # in pixels
alone = np.asarray(scene.components[0] * scene.masks[0][..., None])
_ = row(alone, [f"slot {k}: {area:.0f} px" for k, area in enumerate(areas)], size=1.4)

# %% [markdown]
# What do the numbers mean? In the shipped world each belongs to one factor of a thing: its place, hue, saturation,
# brightness, size, angle or shape. That much was built in (the paper's vision module has to find it out), so we can ask
# the slots where they are; a place is from -2 to 2 across the frame. The crosses are where the slots of sprites say
# they are.

# %%
print("latents:", ", ".join(world.vision.latent_names))
sprite_slots = np.nonzero((areas > 20) & (areas < 1000))[0]  # neither empty nor the background
where = world.vision.place  # from latents to the world's coordinates and back
places = np.asarray(where.of(slots))
axes = row([image], ["places of the slots"], size=3.0)[0]
axes.plot(*places[sprite_slots].T, "x", color="black", markersize=9, markeredgewidth=2)
truth = np.asarray(state.sprites.position)[np.asarray(state.sprites.alive)]
distance = np.linalg.norm(truth[:, None] - places[sprite_slots], axis=-1).min(axis=1)  # to the nearest slot
print("from each sprite to the nearest slot:", np.round(distance, 3), "frame widths")

# %% [markdown]
# Move a slot in its first latent and decode: the blue square moves along x. In its second: along y. The other latents
# are its looks, and mean the same in each slot. Below, the blue square gets those of slots 1 to 5; the last is empty.

# %%
chosen = int(np.argmin(np.linalg.norm(places - truth[blue], axis=1)))  # the slot of the blue square
edited = np.tile(np.asarray(slots), (3, 5, 1, 1))  # three rows of five scenes
for latent in (0, 1):
    edited[latent, :, chosen, latent] = np.linspace(-1.5, 1.5, 5)
edited[2, :, chosen, 2:] = slots[1:6, 2:]
figure, grid = plt.subplots(3, 5, figsize=(8.0, 5.1), layout="constrained")
for line, scenes, title in zip(grid, edited, ("along x", "along y", "looks of slot {}"), strict=True):
    for number, (axes, picture) in enumerate(zip(line, world.decode(scenes).image, strict=True), start=1):
        show(axes, picture, title.format(number))

# %% [markdown]
# ## Imagine
#
# The transition model T reads the slots and an action, and says what the slots will be. It works on slots, not on
# pixels. To see what it imagines, decode its slots. Here is the push from above, imagined and real.

# %%
imagined = world.imagine(slots[None], action[None])
dream = world.decode(imagined.slots).image[0]
_ = row([scene.image[0], dream, after.image], ["before", "imagined", "truth"], size=2.4)
moved = np.asarray(imagined.slots[0] - slots)
print("how far each slot is imagined to move:", np.round(np.linalg.norm(moved[:, :2], axis=1) / 4, 3))

# %% [markdown]
# It can go on from what it imagined. The first image is encoded once; after that T only sees its own slots. The blue
# square is pushed up and to the right, again and again.

# %%
figure, grid = plt.subplots(2, 5, figsize=(8.0, 3.5), layout="constrained")
now, seen, mind = state, image, slots[None]
for t, (above, below) in enumerate(grid.T):
    show(above, seen, f"truth, t = {t}")
    show(below, world.decode(mind).image[0], f"imagined, t = {t}")
    push = np.array([*np.asarray(now.sprites.position)[blue], 0.7, 0.9])
    now, seen = still.step(jax.random.key(0), now, push)[:2]
    mind = world.imagine(mind, push[None]).slots

# %% [markdown]
# T also predicts how wrong its picture will be: e_pred, a squared error in pixels. Imagine the same push at each place
# of the frame. Where there is nothing to push it is sure of itself. On a sprite it is not, for pushes are noisy.

# %%
side = (np.arange(48) + 0.5) / 48
x, y = np.meshgrid(side, side)
everywhere = np.stack([x, y, np.full_like(x, 0.9), np.full_like(x, 0.9)], axis=-1).reshape(-1, 4)
e_pred = world.imagine(jnp.broadcast_to(slots, (len(everywhere), *slots.shape)), everywhere).error.reshape(x.shape)
figure, (left, right) = plt.subplots(1, 2, figsize=(6.2, 2.9), layout="constrained")
show(left, image, "image")
show(right, np.zeros((2, 2, 3)), "e_pred of a click here")
drawn = right.imshow(e_pred, origin="lower", extent=FRAME, cmap="magma")
figure.colorbar(drawn, ax=right, shrink=0.85)
on_sprite = np.asarray(spriteworld.segment(state, 48))[::-1] >= 0  # its first row is at the top
print(f"e_pred on sprites {np.mean(e_pred[on_sprite]):.1f}, elsewhere {np.mean(e_pred[~on_sprite]):.1f}")

# %% [markdown]
# ## Explore
#
# The exploration policy D is curious: it learnt to act where e_pred is high. T gets better there, D moves on, and both
# learn together. It takes uniformly random actions and shifts them. Above are uniform clicks, below curious ones.

# %%
figure, grid = plt.subplots(2, 4, figsize=(8.0, 4.4), layout="constrained")
hits = {"uniform": [], "curious": []}
for column, seed in zip(grid.T, range(4, 8), strict=True):
    there, seen = env.reset(jax.random.key(seed))
    labels = np.asarray(spriteworld.segment(there))  # which sprite each pixel shows, -1 for none
    key = jax.random.key(100 + seed)
    tries = {
        "uniform": np.asarray(jax.random.uniform(key, (CLICKS, 4))),
        "curious": np.asarray(world.propose(world.encode(seen[None])[0], key, CLICKS)),
    }
    for axes, (name, clicks) in zip(column, tries.items(), strict=True):
        pixels = np.minimum(clicks[:, :2] * 64, 63).astype(int)
        hits[name].append(np.mean(labels[63 - pixels[:, 1], pixels[:, 0]] >= 0))
        show(axes, seen, f"{name}: {hits[name][-1]:.0%} hit")
        axes.plot(*clicks[:, :2].T, ".", color="white", markersize=3, alpha=0.8)
uniform_hits, curious_hits = np.mean(hits["uniform"]), np.mean(hits["curious"])
print(f"clicks that hit a sprite: uniform {uniform_hits:.0%}, curious {curious_hits:.0%}")

# %% [markdown]
# ## Want
#
# So far there was no reward. Now there is a task: bring the target to the middle. Targets are red to green, distractors
# are blue to pink; the agent knows neither this nor the goal (crossed circle), which only people see. The reward is
# higher the nearer the target is, and above 0 when it is there.

# %%
task = spriteworld.make("goal_finding_new_position")
begins = [task.reset(jax.random.key(seed))[0] for seed in (13, 9, 22, 12)]
rewards = [float(task.evaluate(begin)[0]) for begin in begins]
pictures = [spriteworld.render(begin, 128, goals=task.goals) for begin in begins]
_ = row(pictures, [f"reward {reward:.1f}" for reward in rewards])

# %% [markdown]
# The world model is frozen. Only the reward predictor R is learnt: it reads slots and says what reward a scene gives.
# Each step here is one step of the paper's Algorithm 1: search, act, remember, and ten small updates of R. The first
# step takes a while, for it is compiled. (`cobra_rl.Agent.learn` does all this in one call.)

# %%
config = COBRA["laptop"]
learner = Cobra(config)
learning = learner.begin(task, world, seeds=[0])
ends, successes = [], []
for steps_taken in range(1, STEPS + 1):
    learning, outcome, _ = learner.step(task, world, learning)
    if outcome.done:
        ends.append(steps_taken)
        successes.append(bool(outcome.success))
predictor = learner.agent_of(learning, 0).predictor
print(f"{STEPS} rewarded steps, {len(ends)} episodes, {sum(successes)} of them solved")

# %% [markdown]
# An episode ends when the task is solved, or after 20 steps. While R learns, episodes become short. One choice in five
# is still left to chance, so that it sees something new.

# %%
lengths, solved = np.diff([0, *ends]), np.array(successes, bool)
figure, axes = plt.subplots(figsize=(6.4, 2.6), layout="constrained")
axes.plot(np.array(ends)[solved], lengths[solved], "o", color=style.COLORS["cobra"], label="solved")
axes.plot(np.array(ends)[~solved], lengths[~solved], "x", color=style.COLORS["random"], label="not solved")
axes.set(xlabel="rewarded steps so far", ylabel="steps of the episode", xlim=(0, 1.02 * STEPS), ylim=(0, 21.5))
figure.legend(loc="outside upper right", ncols=2, frameon=False)
axes.spines[["top", "right"]].set_visible(False)

# %% [markdown]
# What does it want? Take a scene, put the slot of one sprite all over the frame, and ask R for the reward. For the
# target there is a hill with its top near the middle, much like the truth; where R has seen few targets, it guesses.
# For the distractor it matters little where it is: R found out what is a target.

# %%
state, image = task.reset(jax.random.key(13))
slots = world.encode(image[None])[0]
places, positions = np.asarray(where.of(slots)), np.asarray(state.sprites.position)
hue = np.asarray(state.sprites.color)[:, 0]
maps = {"true reward, target here": 50 * (0.075 - np.hypot(x - 0.5, y - 0.5))}
for name, sprite in (("R, target here", np.argmin(hue)), ("R, distractor here", np.argmax(hue))):
    slot = int(np.argmin(np.linalg.norm(places - positions[sprite], axis=1)))
    moved = np.tile(np.asarray(slots), (x.size, 1, 1))
    moved[:, slot, :2] = where.from_canvas(2 * jnp.stack([x.ravel(), y.ravel()], axis=-1) - 1)
    maps[name] = config.reward_unit * np.asarray(predictor(jnp.asarray(moved))).reshape(x.shape)  # R's unit is 10
figure, grid = plt.subplots(1, 4, figsize=(9.4, 2.4), layout="constrained")
show(grid[0], spriteworld.render(state, 128, goals=task.goals), "scene")
for axes, (name, values) in zip(grid[1:], maps.items(), strict=True):
    show(axes, np.zeros((2, 2, 3)), name)
    drawn = axes.imshow(values, origin="lower", extent=FRAME, vmin=-30, vmax=5)
    axes.plot(0.5, 0.5, "+", color="black")
_ = figure.colorbar(drawn, ax=grid)

# %% [markdown]
# ## Act
#
# D proposes 128 actions. T imagines what each of them does, and R says what that is worth. The best one is taken. Each
# arrow below is a proposal, its colour the reward it is imagined to bring. The white one is chosen.

# %%
choice = eqx.filter_jit(choose)(config, CobraParams(world, predictor), slots, jax.random.key(1))
scores, arrows = config.reward_unit * np.asarray(choice.scores), np.asarray(choice.actions)
figure, axes = plt.subplots(figsize=(5.0, 4.2), layout="constrained")
show(axes, np.asarray(image) // 2, "128 proposals and the choice")  # darker, so that arrows stand out
pushes = {"angles": "xy", "scale_units": "xy", "scale": 4}  # 4: as long as the push is
best = np.asarray(choice.action)
drawn = axes.quiver(*arrows[:, :2].T, *(arrows[:, 2:] - 0.5).T, scores, cmap="cool", width=0.004, **pushes)
axes.quiver(*best[:2], *(best[2:] - 0.5), color="white", width=0.012, **pushes)
figure.colorbar(drawn, ax=axes, shrink=0.85, label="predicted reward")
got = task.step(jax.random.key(2), state, choice.action).reward
print(f"reward: now {task.evaluate(state)[0]:.1f}, expected {scores.max():.1f}, got {got:.1f}")

# %% [markdown]
# `cobra_rl.Agent` does this for an image. Let it play an episode where a target never began while it learnt: in the
# lower right. R learnt what is wanted, and T how to get there, so that a new start is nothing new.

# %%
player = cobra_rl.Agent(world, predictor, config)


def play(env, act, key):
    """Play an episode: return states and actions on the way, the last state, and whether it was solved."""
    state, image = env.reset(key)
    way, done, success = [], False, False
    while not done:
        action = act(np.asarray(image))
        way.append((state, action))
        state, image, _, success, truncated, _ = env.step(jax.random.fold_in(key, len(way)), state, action)
        done = success or truncated
    return way, state, bool(success)


test = spriteworld.make("goal_finding_new_position", mode="test")
way, last, success = play(test, player.act, jax.random.key(20))
frames = [spriteworld.render(at, 128, action=action, goals=test.goals) for at, action in way]
frames.append(spriteworld.render(last, 128, goals=test.goals))
titles = [f"step {t}" for t in range(len(way))] + ["solved" if success else "not solved"]
_ = row(frames[-8:], titles[-8:], size=1.4)

# %% [markdown]
# Is it luck? Here are more episodes, and a policy that acts at random in the same ones. *Train* is the task it learnt,
# *test* begins in the lower right.

# %%
rng = np.random.default_rng(0)
policies = {"cobra": player.act, "random": lambda image: rng.random(task.action_size)}
share = {
    name: [np.mean([play(env, act, jax.random.key(1000 + n))[2] for n in range(EPISODES)]) for env in (task, test)]
    for name, act in policies.items()
}
figure, axes = plt.subplots(figsize=(4.0, 2.8), layout="constrained")
for offset, (name, heights) in zip((-0.2, 0.2), share.items(), strict=True):
    bars = axes.bar(np.arange(2) + offset, heights, 0.36, color=style.COLORS[name], label=name)
    axes.bar_label(bars, fmt="{:.0%}", fontsize=8)
axes.set(xticks=[0, 1], xticklabels=["train", "test"], ylim=(0, 1.1), ylabel="episodes solved")
figure.legend(loc="outside upper center", ncols=2, frameon=False)
axes.spines[["top", "right"]].set_visible(False)

# %% [markdown]
# ## Where to go next
#
# - Another task, with a film of it at the end: `cobra solve sorting`.
# - A world of your own: `docs/worlds-of-your-own.md`.
# - How each part learnt: one file a part, in `src/cobra_rl/models`. Algorithm 1 is in `src/cobra_rl/agents/cobra.py`.
# - Your own weights, from nothing to a page of results in one command: `cobra reproduce`.
# - What differs from the paper, and why: `docs/reproduction.md`.

# %%
plt.show()  # as a script, all pictures at once; a notebook has shown them already
