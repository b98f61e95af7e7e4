"""Accelerators, of which there is none here: what is decided for them, and that all compiled steps lower for CUDA."""

import dataclasses
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

from cobra_rl import backend, spriteworld
from cobra_rl.agents import contract, model_free
from cobra_rl.agents.cobra import Cobra
from cobra_rl.agents.mpo import Mpo, _learn_from, _sample
from cobra_rl.config import BASELINES, COBRA, EXPLORE, MPO, VISION
from cobra_rl.models.vision import LossWeights
from cobra_rl.phases import explore, vision
from cobra_rl.phases.schedules import check_memory
from cobra_rl.runs.worlds import load_world

ENV = spriteworld.make("goal_finding_more_targets")


@pytest.fixture
def accelerator(monkeypatch):
    """JAX says that it computes on an accelerator, so that what is decided by that is traced as for one."""
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    jax.clear_caches()
    yield
    jax.clear_caches()


def zeros(tree):
    """Arrays for the shapes in a tree."""
    return jax.tree.map(
        lambda leaf: jnp.zeros(leaf.shape, leaf.dtype) if isinstance(leaf, jax.ShapeDtypeStruct) else leaf, tree
    )


@pytest.fixture(scope="module")
def world(debug_world):
    return load_world(debug_world)


def lowered(function, *arguments) -> str:
    """Lower a compiled function for CUDA, which needs no device; the text of the program."""
    arrays, others = eqx.partition(arguments, eqx.is_array)
    program = jax.jit(lambda arrays: eqx.filter(function(*eqx.combine(arrays, others)), eqx.is_array))
    text = program.trace(arrays).lower(lowering_platforms=("cuda",)).as_text()
    assert "func.func public @main" in text
    return text


def test_a_few_at_a_time_on_a_cpu_and_all_of_them_elsewhere(monkeypatch):
    assert backend.on_cpu()
    assert (backend.at_a_time(2, 8), backend.at_a_time(2, 1)) == (2, 1)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert not backend.on_cpu()
    assert (backend.at_a_time(2, 8), backend.at_a_time(2, 1)) == (8, 1)


class Device:
    """A device that says, or does not say, how much memory it has."""

    def __init__(self, stats):
        self.memory_stats = lambda: stats

    def __str__(self):
        return "cuda:0"


def test_memory_is_that_of_the_device_that_computes(monkeypatch):
    here, owner = backend.memory()
    assert owner == "this machine"
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    for stats, expected in ((None, (here, owner)), ({}, (here, owner)), ({"bytes_limit": 4000}, (4000, "cuda:0"))):
        monkeypatch.setattr(jax, "local_devices", lambda stats=stats: [Device(stats)])
        assert backend.memory() == expected
    with pytest.raises(ValueError, match=r"needs 0 GB, and cuda:0 has 0 GB of memory; take a smaller --config.memory"):
        check_memory(lambda: jnp.zeros(1001), "--config.memory")


def test_jobs_share_the_gpus():
    ray_seeds = pytest.importorskip("cobra_rl.runs.ray_seeds")
    assert ray_seeds.gpu_share(0.0, 4) == 0.0
    assert ray_seeds.gpu_share(1.0, 1) == ray_seeds.gpu_share(8.0, 4) == 1.0
    assert ray_seeds.gpu_share(1.0, 4) == 0.25
    third = ray_seeds.gpu_share(1.0, 3)
    assert 3 * third <= 1.0
    assert math.isclose(third, 1 / 3, abs_tol=1e-4)
    assert ray_seeds.SHARED_GPU == {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}


@pytest.mark.parametrize("seeds", [1, 3])
@pytest.mark.parametrize("preset", ["debug", "laptop", "paper"])
def test_a_call_of_a_task_lowers_for_cuda(accelerator, world, seeds, preset):
    agent = Cobra(dataclasses.replace(COBRA[preset], memory=100))
    state = agent.begin(ENV, world, range(seeds))
    until = jnp.int32(4), jnp.full(seeds, 9, jnp.int32)

    def play(world, state):
        return contract._play((agent, ENV, world, until, state._replace(agent=None)), state.agent)

    assert "stablehlo.while" in lowered(play, world, state)


def test_a_step_of_a_task_lowers_for_cuda(accelerator, world):
    agent = Cobra(COBRA["debug"])
    state = agent.begin(ENV, world, range(3))
    lowered(lambda world, images: contract._observe(agent, world, images), world, jnp.zeros((3, 64, 64, 3), jnp.uint8))
    lowered(
        lambda world, state: contract._explore(agent, world, state.agent, state.observation, state.key), world, state
    )
    lowered(lambda state: contract._advance(ENV, state.key, state.env, jnp.zeros((3, 4))), state)


def test_the_parts_of_a_world_lower_for_cuda(accelerator, world):
    images = jnp.zeros((2, 64, 64, 3), jnp.uint8)
    slots = jnp.zeros((2, 3, 12))
    for function in (
        lambda world: world.encode(images),
        lambda world: world.masks(images),
        lambda world: world.decode(slots),
        lambda world: world.imagine(slots, jnp.zeros((2, 4))),
        lambda world: world.propose(slots, jax.random.key(0), n=5),
        lambda world: world.deform(slots, jnp.zeros((2, 4))),
    ):
        lowered(function, world)


@pytest.mark.parametrize("preset", ["laptop", "learnt", "paper"])
def test_a_step_of_vision_lowers_for_cuda(accelerator, preset):
    config = VISION[preset]
    small = dataclasses.replace(VISION["debug"], model=config.model)
    phase = vision.VisionPhase(small, spriteworld.make("exploration"), 0)
    state = jax.eval_shape(phase.init)
    given = (jax.random.key(0), LossWeights(jnp.float32(0.5), jnp.float32(0.5)))
    step = vision._compiled(phase.config, phase.env, phase.config.stages[-1])
    lowered(step, given, zeros(state))


@pytest.mark.parametrize("preset", ["laptop", "learnt", "paper"])
def test_a_step_of_exploration_lowers_for_cuda(accelerator, world, preset):
    config = dataclasses.replace(EXPLORE[preset], capacity=64, min_replay_size=8, envs=2)
    phase = explore.ExplorePhase(config, spriteworld.make("exploration"), world.vision, "", 0)
    state = zeros(eqx.filter_eval_shape(phase.init))
    now = dict.fromkeys(explore.SCHEDULED, jnp.float32(1.0))
    lowered(phase._update, (world.vision, jax.random.key(0), now), state.learner, state.memory)


@pytest.mark.parametrize(("features", "policy"), BASELINES)
def test_a_step_of_mpo_lowers_for_cuda(accelerator, world, features, policy):
    learner = Mpo(dataclasses.replace(MPO["debug"], features=features, policy=policy))
    world = world if learner.uses_world else None
    state = learner.begin(ENV, world, [0])
    lowered(
        lambda world, state: model_free.play(ENV, learner.config, world, state.agent.networks, state.acting),
        world,
        state,
    )

    def learn(state):
        batch = _sample(ENV, learner.config, state.replay, state.key)
        return _learn_from((learner, batch, state.key), state.agent)

    lowered(learn, state)
