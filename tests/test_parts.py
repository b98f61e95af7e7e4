"""Parts by name: chosen on the command line, saved with their class, and one's own from a file outside the package."""

import dataclasses
import json
from pathlib import Path

import jax
import numpy as np
import pytest

from cobra_rl import cli
from cobra_rl.bounds import from_json, to_json
from cobra_rl.config import COBRA, EXPLORE, VISION, CobraConfig
from cobra_rl.models.actor_critic import ActorCritic, ActorCriticConfig
from cobra_rl.models.exploration import Deformation, ExplorationConfig
from cobra_rl.models.planner import PlannerConfig, ShootingConfig
from cobra_rl.models.reward import ObjectConfig, ObjectReward, RelationConfig, RelationReward, RewardConfig
from cobra_rl.models.transition import Sizes
from cobra_rl.parts import REGISTRY, config_of, load_part, name_of, part_of
from cobra_rl.reporting.figures import tasks
from cobra_rl.runs.agent import Agent
from cobra_rl.runs.worlds import load_vision, load_world
from cobra_rl.storage import files

OWN_REWARD = """
from dataclasses import dataclass

import equinox as eqx
import jax.numpy as jnp
from cobra_rl.models.reward import Reward, RewardConfig


@dataclass(frozen=True)
class LinearConfig(RewardConfig):
    gain: float = 1.0  # scale of the weights at the start


class Linear(Reward):
    weight: jnp.ndarray
    config: LinearConfig = eqx.field(static=True)

    def __init__(self, config, latents, key):
        self.weight = jnp.full(latents, 0.1 * config.gain)
        self.config = config

    def __call__(self, slots):
        return (slots @ self.weight).sum(-1)
"""
OWN_OBJECT = """
import equinox as eqx
from cobra_rl.models.reward import ObjectConfig, ObjectReward


class Mine(ObjectReward):
    config: ObjectConfig = eqx.field(static=True)
"""
OWN_PLANNER = """
from dataclasses import dataclass

from cobra_rl.models.planner import Choice, Planner, PlannerConfig
import jax.numpy as jnp


@dataclass(frozen=True)
class FirstConfig(PlannerConfig):
    rank: int = 0  # which of the proposals is taken


class First(Planner):
    config: FirstConfig

    def __call__(self, world, score, slots, key):
        actions = world.propose(slots, key, self.config.proposals)
        return Choice(actions[self.config.rank], actions, jnp.zeros(len(actions)))
"""
OWN_VISION = """
import equinox as eqx
from cobra_rl.models.monet import Monet, MonetConfig


class Twin(Monet):
    config: MonetConfig = eqx.field(static=True)
"""
OWN_TRANSITION = """
from dataclasses import dataclass

import equinox as eqx
from cobra_rl.models.transition import Imagined, SlotTransition, TransitionConfig


@dataclass(frozen=True)
class BoredConfig(TransitionConfig):
    interest: float = 0.5  # curiosity is this share of the predicted error


class Bored(SlotTransition):
    config: BoredConfig = eqx.field(static=True)

    def __call__(self, slots, action):
        imagined = super().__call__(slots, action)
        return Imagined(imagined.slots, self.config.interest * imagined.error)
"""


@pytest.fixture(autouse=True)
def _quick(monkeypatch, tmp_path):
    monkeypatch.setattr(tasks, "FILM_FRAMES", 3)
    monkeypatch.chdir(tmp_path)


@pytest.fixture(autouse=True)
def _a_fresh_process(monkeypatch):
    """No part of a user's own has been loaded yet."""
    forget(monkeypatch)


def forget(monkeypatch) -> None:
    """As if the next command ran in another process."""
    monkeypatch.setattr("cobra_rl.parts._own", {})


def test_every_name_leads_to_a_class_with_a_configuration():
    for kind, names in REGISTRY.items():
        for name in names:
            part = load_part(kind, name)
            config = config_of(part)()
            assert config.kind == kind
            assert name_of(config) == name
            assert part_of(config) is part


@pytest.mark.parametrize("config", [RelationConfig(), ObjectConfig(), PlannerConfig(4), ShootingConfig(4, 3)])
def test_a_saved_configuration_names_its_class(config):
    data = to_json(config)
    assert data["class"] == name_of(config)
    base = RewardConfig if config.kind == "reward" else PlannerConfig
    assert from_json(base, data, "it") == config


def test_configurations_with_the_same_fields_keep_their_class(tmp_path):
    """Version 0.2 guessed the class from the names of the fields."""
    Path("mine.py").write_text(OWN_OBJECT)
    config = config_of(load_part("reward", "mine.py:Mine"))(pair_layers=(8,))
    assert isinstance(config, ObjectConfig)
    task = dataclasses.replace(COBRA["debug"], reward=config)
    found = from_json(CobraConfig, to_json(task), "it")
    assert type(found.reward) is type(config)
    assert part_of(found.reward).__name__ == "Mine"
    assert to_json(found)["reward"]["class"] == f"{tmp_path / 'mine.py'}:Mine"
    assert found != dataclasses.replace(task, reward=ObjectConfig(pair_layers=(8,)))


@pytest.mark.parametrize("named", ["class", "model", None])  # as the entry is called that names the class
@pytest.mark.parametrize(
    ("base", "name", "older", "now"),
    [
        (RewardConfig, "relation", {"pair": [8], "whole": [4]}, RelationConfig((8,), (4,))),
        (
            RewardConfig,
            "object",
            {"pair": [8], "thing": [4], "pair_cost": 1.0},
            ObjectConfig((8,), (4,), pair_cost=1.0),
        ),
        (ExplorationConfig, "deformation", {"net": "slots", "hidden": [8]}, ExplorationConfig("per_slot", (8,))),
        (ExplorationConfig, "deformation", {"net": "whole"}, ExplorationConfig("joint")),
    ],
)
def test_fields_of_version_0_2_are_read_by_their_names(named, base, name, older, now):
    assert from_json(base, older | ({named: name} if named else {}), "it") == now


def test_networks_of_version_0_2_are_read_by_their_names():
    older = {"slot_actor": [1], "slot_actor_whole": [2], "slot_critic": [3], "slot_critic_whole": [4], "hidden": [5]}
    assert from_json(ActorCriticConfig, older, "it") == ActorCriticConfig((1,), (2,), (3,), (4,), hidden=(5,))


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (lambda key: RelationReward(RelationConfig(), 3, key), {"pair_net": "pair", "global_net": "whole"}),
        (lambda key: ObjectReward(ObjectConfig(), 3, key), {"pair_net": "pair", "object_net": "thing"}),
        (lambda key: Deformation(ExplorationConfig(), Sizes(2, 3, 4, 8), key), {".net": ".net.net"}),
        (
            lambda key: ActorCritic(ActorCriticConfig(channels=(2,), hidden=(2,)), Sizes(2, 3, 4, 8), True, key),
            {"slot_net": "each", "global_net": "whole", "encoders": "eyes"},
        ),
    ],
    ids=["relation", "object", "deformation", "actor_critic"],
)
def test_weights_of_version_0_2_are_read_by_their_names(make, names):
    model = make(jax.random.key(0))
    tensors = files.flatten((model, {"learning": model}))  # as a checkpoint has them
    for new, old in names.items():
        tensors = {name.replace(new, old): tensor for name, tensor in tensors.items()}
    like = jax.tree.map(jax.numpy.zeros_like, (model, {"learning": model}))
    jax.tree.map(np.testing.assert_array_equal, files.unflatten(like, tensors)[1]["learning"], model)
    with pytest.raises(files.TreeMismatch, match="also has"):
        files.unflatten(like, tensors | {".nothing.of.this": np.zeros(1)})


def test_a_class_is_chosen_with_its_own_options():
    command = cli.parse(["solve", "sorting", "--config.reward", "relation", "--config.reward.pair-layers", "16", "16"])
    assert command.config.reward == RelationConfig(pair_layers=(16, 16))
    command = cli.parse(["solve", "sorting", "--config.planner=shooting", "--config.planner.depth", "3"])
    assert command.config.planner == ShootingConfig(depth=3)
    assert command.config.reward == COBRA["laptop"].reward
    command = cli.parse(["train", "explore", "--config.transition", "paper", "--config.transition.hidden", "8"])
    assert command.config.transition.hidden == (8,)
    same = cli.parse(["solve", "sorting", "--preset", "debug", "--config.reward", "object"])
    assert same.config == COBRA["debug"]  # the preset's options stay where its class does


def test_help_says_which_parts_there_are(capsys):
    with pytest.raises(SystemExit):
        cli.parse(["solve", "--help"])
    shown = " ".join(capsys.readouterr().out.replace("\u2502", " ").split())
    assert "--config.reward relation|object|FILE.py:CLASS" in shown
    assert "--config.planner one_step|shooting|FILE.py:CLASS" in shown


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--config.reward", "relations"], "There is no reward 'relations'; choose one of relation, object, or your"),
        (["--config.reward"], "--config.reward needs a name: one of relation, object"),
        (["--config.reward", "--steps", "3"], "--config.reward needs a name"),
        (["--config.reward", "nowhere.py:Mine"], "nothing is found there: there is no file"),
        (["--config.reward", "mine.py:Yours"], "nothing is found there"),
        (["--config.reward", "mine.py:number"], "is a int; it must be a class"),
        (["--config.reward", "mine.py:Plain"], "it must be a class with a configuration"),
        (["--config.planner", "mine.py:Mine"], "it must be a class with a configuration, as OneStep has it"),
        (["--config.reward", "broken.py:Mine"], "its code fails: ZeroDivisionError"),
    ],
)
def test_a_name_that_leads_nowhere_is_refused_with_a_sentence(words, sentence, capsys):
    Path("mine.py").write_text(OWN_OBJECT + "\nnumber = 3\n\nclass Plain:\n    pass\n")
    Path("broken.py").write_text("1 / 0")
    with pytest.raises(SystemExit) as ended:
        cli.main(["solve", "sorting", *words])
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert error.count("\n") == 1


def solve(*words, world, out="run", steps=6) -> None:
    common = ["--preset", "debug", "--final", "1", "--steps", str(steps), "--world", str(world), "--out", out]
    cli.main(["solve", "goal_finding_new_shape", *common, *words])


@pytest.mark.parametrize(
    ("source", "words", "field"),
    [
        (OWN_REWARD, ["--config.reward", "mine.py:Linear", "--config.reward.gain", "2"], "reward"),
        (OWN_PLANNER, ["--config.planner", "mine.py:First", "--config.planner.rank", "1"], "planner"),
    ],
    ids=["reward", "planner"],
)
def test_a_part_of_ones_own_learns_resumes_and_is_loaded_again(source, words, field, debug_world, monkeypatch, capsys):
    Path("mine.py").write_text(source)
    solve(*words, world=debug_world)
    recorded = json.loads(Path("run", "run.json").read_text())["settings"]["config"][field]
    assert recorded["class"].endswith("mine.py:" + words[1].partition(":")[2])
    forget(monkeypatch)
    solve(*words, world=debug_world, steps=8)
    assert "resumes at step 6 of 8" in capsys.readouterr().out
    forget(monkeypatch)
    with pytest.raises(ValueError, match=r"names code, .*mine\.py.*--trust"):
        Agent.load("run")
    with pytest.raises(SystemExit):
        cli.main(["evaluate", "run", "--episodes", "1"])
    assert "--trust" in capsys.readouterr().err
    cli.main(["evaluate", "run", "--episodes", "1", "--trust"])
    forget(monkeypatch)
    agent = Agent.load("run", trust=True)
    assert name_of(getattr(agent.config, field)) == recorded["class"]
    assert agent.act(jax.numpy.zeros((64, 64, 3), "uint8")).shape == (4,)
    forget(monkeypatch)
    cli.main(["watch", "--run", "run", "--frames", "2", "--out", "film.gif", "--trust"])
    with pytest.raises(SystemExit):  # another class is another run
        solve(world=debug_world, steps=8)
    assert "other settings" in capsys.readouterr().err


def test_a_vision_and_a_transition_model_of_ones_own(monkeypatch, capsys):
    """Both are one file; the world that is made of them needs the user's word, and then does everything."""
    Path("twin.py").write_text(OWN_VISION)
    Path("bored.py").write_text(OWN_TRANSITION)
    small = [
        word
        for field in dataclasses.fields(VISION["debug"].model)
        for word in option("model", field.name, getattr(VISION["debug"].model, field.name))
    ]
    train = ["--preset", "debug", "--steps", "8"]
    cli.main(["train", "vision", *train, "--config.model", "twin.py:Twin", *small, "--out", "seen"])
    forget(monkeypatch)
    with pytest.raises(ValueError, match="--trust"):
        load_vision("seen")
    assert type(load_vision("seen", trust=True)).__name__ == "Twin"
    forget(monkeypatch)
    chosen = ["--config.transition", "bored.py:Bored", "--config.transition.hidden", "8"]
    explore = ["train", "explore", *train, "--vision", "seen", *chosen, "--out", "explored", "--trust"]
    cli.main(explore)
    forget(monkeypatch)
    cli.main(explore)
    assert "finished" in capsys.readouterr().out
    forget(monkeypatch)
    with pytest.raises(ValueError, match="--trust"):
        load_world("explored")
    world = load_world("explored", trust=True)
    assert type(world.transition).__name__ == "Bored"
    assert EXPLORE["debug"].transition != world.transition.config
    forget(monkeypatch)
    solve("--trust", world="explored")
    assert Agent.load("run", trust=True).world.transition.config.interest == 0.5


def test_a_vision_module_from_scratch_does_everything_but_what_needs_a_place(monkeypatch, capsys):
    """It has no places, no empty slots, no patches, and its background last: see its own file."""
    Path("columns.py").write_text((Path(__file__).parents[1] / "docs" / "examples" / "columns.py").read_text())
    train = ["--preset", "debug", "--steps", "8"]
    cli.main(["train", "vision", *train, "--config.model", "columns.py:Columns", "--out", "seen"])
    explore = ["train", "explore", *train, "--vision", "seen", "--trust"]
    with pytest.raises(SystemExit):
        cli.main([*explore, "--out", "refused"])
    assert "needs slots that say where they are" in capsys.readouterr().err
    cli.main([*explore, "--out", "explored", "--config.transition", "paper", "--config.transition.hidden", "8"])
    forget(monkeypatch)
    solve("--trust", world="explored")
    assert type(Agent.load("run", trust=True).world.vision).__name__ == "Columns"


def option(part: str, name: str, value) -> list[str]:
    """A field of a configuration as an option."""
    values = value if isinstance(value, tuple) else (value,)
    flat = [str(item) for item in values]
    return [f"--config.{part}.{name.replace('_', '-')}", *flat] if flat and not isinstance(value, bool) else []
