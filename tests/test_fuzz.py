"""Malformed input of every kind is refused with a sentence, at once, and nothing that was given is changed.

More than 1,000 inputs are tried; `make fuzz` tries ten times as many, at random. What is refused is refused before
anything compiles, so that all of it takes seconds.
"""

import contextlib
import dataclasses
import datetime
import functools
import hashlib
import io
import json
import math
import os
import shutil
import time
import types
import typing

import jax
import jaxtyping
import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from cobra_rl import cli, config, spriteworld
from cobra_rl.bounds import to_json
from cobra_rl.environments import Problem
from cobra_rl.models.exploration import ExplorationConfig
from cobra_rl.models.monet import MonetConfig
from cobra_rl.models.reward import ObjectConfig, RelationConfig
from cobra_rl.models.transition import LawConfig, TransitionConfig
from cobra_rl.models.world import make_vision
from cobra_rl.reporting.figures.tasks import learning_curve
from cobra_rl.reporting.results import read_explore, read_log, read_suite, read_vision, results_of
from cobra_rl.reporting.tables import print_explore, print_result, print_vision
from cobra_rl.runs.agent import Agent
from cobra_rl.runs.settings import TaskSettings, WorldUsed, task_settings
from cobra_rl.runs.worlds import load_vision, load_world
from cobra_rl.spriteworld import Clustering, EnvSpec, FindGoal, NoReward, SpriteDistribution, Sum
from cobra_rl.spriteworld.dm import SpriteworldDm
from cobra_rl.spriteworld.gym import SpriteworldEnv, SpriteworldVectorEnv
from cobra_rl.storage.files import write_json
from cobra_rl.storage.weights import WEIGHTS_FILE, WeightsError, load_weights, read_config

TIMES = int(os.environ.get("COBRA_FUZZ", "1"))
SMALL = dataclasses.replace(spriteworld.env_spec("goal_finding_new_shape"), name="small", image_size=16, max_steps=3)


def tries(count):
    """So many inputs; none may take ten seconds of this process (a busy machine may take longer by the clock)."""
    limits = settings(
        max_examples=count * TIMES,
        deadline=datetime.timedelta(seconds=100),
        derandomize=TIMES == 1,
        database=None,
        suppress_health_check=list(HealthCheck),
    )

    def decorate(test):
        @functools.wraps(test)
        def timed(*args, **kwargs):
            began = time.process_time()
            test(*args, **kwargs)
            assert time.process_time() - began < 10.0

        return limits(timed)

    return decorate


@pytest.fixture(scope="module", autouse=True)
def _as_a_user_has_it():
    """The tests' own checks of types are off: they would refuse before ours do."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@contextlib.contextmanager
def refused(*words, kinds=(ValueError,)):
    """Whatever is done is refused in one sentence with these words."""
    with pytest.raises(kinds) as caught:
        yield
    assert_sentence(str(caught.value), *words)


def assert_sentence(text, *words):
    assert len(text) > 20, text
    assert "\n" not in text
    assert all(str(word) in text for word in words), (text, words)


# --- values: every field of everything that is made of fields -------------------------------------------------------

SPRITE = SpriteDistribution()
MADE = [
    config.VISION["debug"], config.EXPLORE["debug"], config.COBRA["debug"], config.Stage(1.0, 2), MonetConfig(),
    config.MPO["debug"], config.MPO["debug"].networks,
    TransitionConfig(), LawConfig(), ExplorationConfig(), RelationConfig(), ObjectConfig(), Problem("sorting"), SPRITE,
    EnvSpec("own", ((SPRITE,),), NoReward(), 5), FindGoal(), Clustering(((0.0, 0.1), (0.5, 0.6))), Sum((FindGoal(),)),
    TaskSettings(problem=Problem("sorting"), world=WorldUsed("abc")),
]  # fmt: skip
FIELDS = [(made, field.name) for made in MADE for field in dataclasses.fields(made)]
NUMBERS = {int: [10**30, -(10**30), 0.5], float: [math.nan, math.inf, -math.inf, 1e308, np.float64("nan"), 10**400]}
JUNK = [object(), b"bytes", 1j, [object()], [math.nan, "?"], {"?": object()}, np.zeros(3), lambda: 0, ("?",) * 1001]


def allowed_types(hint):
    """The Python types that an annotation mentions."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return allowed_types(arguments[0])
    if origin in (typing.Union, types.UnionType):
        return {kind for choice in arguments for kind in allowed_types(choice)}
    return {origin or hint}


@given(st.sampled_from(FIELDS), st.data())
@tries(300)
def test_a_field_that_does_not_fit(made_and_name, data):
    made, name = made_and_name
    kinds = allowed_types(typing.get_type_hints(type(made), include_extras=True)[name])
    unfit = list(JUNK)
    unfit += [value for kind in kinds & {int, float} for value in NUMBERS[kind] if float not in kinds or kind is float]
    unfit += [None] * (type(None) not in kinds) + [True, False] * (bool not in kinds)
    unfit += ["no such thing", ""] * (str not in kinds) + [7, -1.5] * (not kinds & {int, float})
    with refused(name, " is ", "must"):
        dataclasses.replace(made, **{name: data.draw(st.sampled_from(unfit))})


# --- JSON files: a value replaced, an entry lost, a file cut off ----------------------------------------------------

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=4,
)


def paths_in(tree, path=()):
    yield path
    for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree[:2]) if isinstance(tree, list) else ():
        yield from paths_in(value, (*path, key))


def damage(data, text):
    """The text of a JSON file, damaged in some way."""
    how = data.draw(st.sampled_from(["replace", "replace", "replace", "lose", "add", "cut", "bytes"]))
    if how == "cut":
        return text[: data.draw(st.integers(0, len(text) - 2))].encode()
    if how == "bytes":
        return data.draw(st.binary(max_size=20))
    tree = json.loads(text)
    path = data.draw(st.sampled_from(list(paths_in(tree))))
    value = data.draw(json_values)
    if not path:
        return json.dumps(value).encode()
    place = tree
    for key in path[:-1]:
        place = place[key]
    if how == "lose" and isinstance(place, dict):
        del place[path[-1]]
    elif how == "add" and isinstance(place, dict):
        place["?"] = value
    else:
        place[path[-1]] = value
    return json.dumps(tree).encode()


def contents(folder):
    """A fingerprint of all files of a folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@contextlib.contextmanager
def damaged(path, data):
    """The file with other bytes; what is done with it changes no file and is refused, if so, by its name."""
    whole = path.read_bytes()
    path.write_bytes(damage(data, whole.decode()))
    before = contents(path.parent)
    try:
        yield
    except (ValueError, OSError) as error:
        assert_sentence(str(error), path.parent.name)
    finally:
        assert contents(path.parent) == before
        path.write_bytes(whole)


@pytest.fixture(scope="module")
def run(debug_world, tmp_path_factory):
    """A tiny agent as `Agent.save` leaves it."""
    from cobra_rl.agents.cobra import make_reward

    world = load_world(debug_world)
    task = config.COBRA["debug"]
    agent = Agent(
        world, make_reward(task.reward, world.sizes.latents, jax.random.key(0)), task, Problem("sorting"), debug_world
    )
    return agent.save(tmp_path_factory.mktemp("agents") / "run")


@given(st.data())
@tries(150)
def test_a_damaged_run_json(run, data):
    with damaged(run / "run.json", data):
        task_settings(run)


BASELINE_RUN = TaskSettings(
    problem=Problem("sorting"), agent="mpo_raw", config=config.MPO["debug"], world=None, steps=8
)


@given(st.data())
@tries(60)
def test_a_damaged_run_json_of_a_baseline(tmp_path_factory, data):
    run = tmp_path_factory.mktemp("baseline")
    write_json(run / "run.json", {"settings": to_json(BASELINE_RUN)})
    assert task_settings(run) == BASELINE_RUN
    with damaged(run / "run.json", data):
        task_settings(run)


@given(st.data())
@tries(60)
def test_a_damaged_configuration_of_weights(debug_vision, data):
    with damaged(debug_vision / "config.json", data):
        load_vision(debug_vision)


@given(
    st.sampled_from(["world.json", "vision/config.json", "transition/config.json", "exploration/config.json"]),
    st.data(),
)
@tries(60)
def test_a_damaged_world(debug_world, name, data):
    with damaged(debug_world / name, data):
        load_world(debug_world)


@given(st.data())
@tries(40)
def test_a_damaged_configuration_of_an_agent(run, data):
    with damaged(run / "seed0" / "reward" / "config.json", data):
        Agent.load(run)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("published") / "results"
    (folder / "solve").mkdir(parents=True)
    for name in ("vision.json", "explore.json", "solve/sorting.json", "explore_log.jsonl"):
        shutil.copy(results_of() / name, folder / name)
    log = folder / "explore_log.jsonl"
    log.write_text("\n".join(log.read_text().splitlines()[:1]))
    return folder


SHOWN = {
    "vision.json": lambda folder: print_vision(read_vision(folder).metrics),
    "explore.json": lambda folder: print_explore(read_explore(folder).metrics),
    "solve/sorting.json": lambda folder: [
        (print_result(result), learning_curve(result)) for of in read_suite(folder).values() for result in of.values()
    ],
    "explore_log.jsonl": lambda folder: read_log(folder, "explore_log.jsonl"),
}


@given(st.sampled_from(sorted(SHOWN)), st.data())
@tries(150)
def test_damaged_results(results, name, data):
    """What is not refused can be shown."""
    with damaged(results / name, data), contextlib.redirect_stdout(io.StringIO()):
        SHOWN[name](results)


# --- weights --------------------------------------------------------------------------------------------------------


@given(st.sampled_from(["flip", "flip", "flip", "cut", "junk"]), st.data())
@tries(150)
def test_damaged_weights(debug_vision, like, how, data):
    path = debug_vision / WEIGHTS_FILE
    whole = path.read_bytes()
    place = data.draw(st.integers(0, len(whole) - 1))
    flipped = whole[:place] + bytes([whole[place] ^ 1 << data.draw(st.integers(0, 7))]) + whole[place + 1 :]
    path.write_bytes({"flip": flipped, "cut": whole[:place], "junk": data.draw(st.binary(max_size=99))}[how])
    try:
        loaded = load_weights(debug_vision, like, "vision")
    except WeightsError as error:
        assert_sentence(str(error), path)
    else:  # a bit of the header that says nothing about the weights
        path.write_bytes(whole)
        expected = load_weights(debug_vision, like, "vision")
        assert how == "flip"
        assert all(map(np.array_equal, jax.tree.leaves(loaded), jax.tree.leaves(expected)))
    finally:
        path.write_bytes(whole)


@pytest.fixture(scope="module")
def like(debug_vision):
    """What the weights are to be of: shapes only."""
    import equinox as eqx

    return eqx.filter_eval_shape(lambda key: make_vision(config.VISION["debug"].model, key), jax.random.key(0))


@pytest.mark.parametrize("change", ["shape", "nan", "kind"])
def test_weights_of_something_else(debug_vision, like, change):
    import equinox as eqx

    from cobra_rl.storage import files

    if change == "kind":
        with refused("of kind 'vision' and not 'reward'"):
            read_config(debug_vision, "reward")
    elif change == "shape":
        other = dataclasses.replace(config.VISION["debug"].model, decoder_width=9)
        model = eqx.filter_eval_shape(lambda key: make_vision(other, key), jax.random.key(0))
        with refused("do not fit this model", "and not"):
            load_weights(debug_vision, model, "vision")
    else:
        path, whole = debug_vision / WEIGHTS_FILE, (debug_vision / WEIGHTS_FILE).read_bytes()
        tensors, _ = files.from_bytes(whole)
        name = next(name for name, tensor in tensors.items() if tensor.dtype == np.float32)
        tensors[name] = np.full_like(tensors[name], np.nan)
        path.write_bytes(b"".join(map(bytes, files.to_pieces(tensors, {}))))
        try:
            with refused("not finite"):
                load_weights(debug_vision, like, "vision")
        finally:
            path.write_bytes(whole)


# --- environments ---------------------------------------------------------------------------------------------------

bad_seeds = (
    st.integers(max_value=-1) | st.integers(min_value=2**32) | st.sampled_from(["1", 0.5, b"1", math.nan, {}, object()])
)
bad_actions = st.one_of(
    st.lists(st.floats(0, 1, width=32), max_size=9).filter(lambda row: len(row) != 4),
    st.lists(st.floats(0, 1, width=32), min_size=3, max_size=3).flatmap(
        lambda row: st.sampled_from([math.nan, math.inf, -math.inf, -0.01, 1.01, 1e30]).map(lambda bad: [*row, bad])
    ),
    st.sampled_from(
        [None, "push", ["0.5"] * 4, [0.5, 0.5, [0.5], 0.5], [1j] * 4, object(), {}, np.zeros((1, 4)), b"0"]
    ),
)


@pytest.fixture(scope="module")
def envs():
    made = SpriteworldEnv(SMALL), SpriteworldVectorEnv(SMALL, 2), SpriteworldDm(SMALL)
    made[0].reset(seed=0), made[1].reset(seed=0), made[2].reset()
    return made


@given(bad_actions, st.integers(0, 3))
@tries(100)
def test_actions_that_are_none(envs, action, which):
    single, _, dm = envs
    with refused("An action"):
        if which == 3:
            dm.core.step(jax.random.key(0), single.state, action)
        else:
            envs[which].step([action, [0.5] * 4] if which == 1 else action)
    assert single.state.step == 0


@given(bad_seeds, st.integers(0, 3))
@tries(60)
def test_seeds_that_are_none(envs, seed, which):
    single, vector, _ = envs
    with refused("seed is", "it must be a whole number from 0 to 4,294,967,29"):
        calls = (
            lambda: single.reset(seed=seed),
            lambda: vector.reset(seed=seed),
            lambda: vector.reset(seed=[0, seed]),
            lambda: SpriteworldDm(SMALL, seed=seed),
        )
        calls[which]()


def test_seeds_of_numpy_are_seeds(envs):
    image, _ = envs[0].reset(seed=np.int64(2**32 - 1))
    np.testing.assert_array_equal(image, envs[0].reset(seed=2**32 - 1)[0])


@given(
    st.sampled_from(["num_envs", "autoreset_mode", "render_mode", "task", "mode", "variant"]),
    st.sampled_from([-1, 0, 10**9, "?", "", b"?", [], {}, object(), 0.5, math.nan]),
)
@tries(60)
def test_vector_environments_that_cannot_be(name, value):
    words = (name, "must") if name in ("num_envs", "autoreset_mode", "render_mode") else (name, "choose one of")
    with refused(*words):
        SpriteworldVectorEnv(**({"task": "sorting"} | {name: value}))


@given(
    st.sampled_from(
        [None, 1, [True, False], np.zeros(2, bool), np.ones(3, bool), np.ones(2), "?", np.ones((2, 1), bool)]
    )
)
@tries(8)
def test_masks_of_a_reset_that_are_none(envs, mask):
    with refused("reset_mask", "a NumPy array of 2 booleans"):
        envs[1].reset(options={"reset_mask": mask})


@given(st.data())
@tries(60)
def test_sprites_that_cannot_be(data):
    name = data.draw(st.sampled_from(["x", "y", "shape", "angle", "scale", "c0", "c1", "c2", "hue"]))
    value = data.draw(st.sampled_from([math.nan, math.inf, -1e9, 1e9, "?", None, [], object(), b"", 1j]))
    with refused(name, "sprite 0" if name != "hue" else "Sprite 0"):
        spriteworld.state_from_sprites([{name: value}])
    size = data.draw(st.sampled_from([0, -1, 10**9, 0.5, "?"]))
    with refused("size", "must be a whole number"):
        spriteworld.render(spriteworld.state_from_sprites([{}]), size)


# --- the agent ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def agent(run):
    return Agent.load(run)


@given(st.data())
@tries(60)
def test_pictures_that_are_none(agent, data):
    shape = data.draw(st.lists(st.sampled_from([1, 3, 4, 63, 64, 65]), max_size=5))
    kind = data.draw(st.sampled_from(["uint8", "int8", "float32", "bool", "uint16", "complex64", "<U1"]))
    assume(kind != "uint8" or shape != [64, 64, 3])
    picture = data.draw(st.sampled_from([np.zeros(shape, kind), "picture", None, [[0]], object(), 3]))
    with refused("got"):
        agent.act(picture)
    with refused("epsilon is", "from 0.0 to 1.0"):
        agent.act(np.zeros((64, 64, 3), np.uint8), data.draw(st.sampled_from([-0.1, 1.1, math.nan, "?", None, []])))


CROWD = dataclasses.replace(SMALL, name="crowd", scenes=((SPRITE,) * 9,), image_size=64)
LEARN = {
    "steps": [0, -1, 0.5, "?", None, 10**12], "seed": [-1, 2**32, "?", 0.5], "final": [0, -3, "?"],
    "config": [None, {"nothing": 1}, "laptop", config.VISION["debug"]],
    "env": [None, 3, "sorting", SMALL, CROWD, {"test": SMALL}],
    "world": ["nowhere"],
}  # fmt: skip


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in LEARN.items() for value in values])
def test_lessons_that_cannot_be_had(debug_world, tmp_path, name, value):
    """Also in a world with pictures of another size, or with more sprites than the world has slots."""
    given = {"env": dataclasses.replace(SMALL, image_size=64), "steps": 5, "final": 1, "config": config.COBRA["debug"]}
    with refused():
        Agent.learn(**(given | {"world": debug_world, "folder": tmp_path, name: value}))
    if name == "env" and value is CROWD:
        assert not (tmp_path / "seed0").exists()


# --- the command line -----------------------------------------------------------------------------------------------

WHOLE = {  # options that take whole numbers
    "watch sorting": ["--frames", "--seed"],
    "play-random sorting": ["--steps", "--size", "--fps", "--seed"],
    "solve sorting --preset debug": [
        *(
            "--seeds",
            "--first-seed",
            "--steps",
            "--final",
            "--config.planner.proposals",
            "--config.updates",
            "--config.memory",
        ),
        *("--config.learning-rate", "--config.epsilon", "--config.reward.pair-layers"),
    ],
    "baseline sorting --preset debug": [
        *("--seeds", "--first-seed", "--steps", "--final", "--workers", "--check-every", "--config.batch"),
        *("--config.capacity", "--config.envs", "--config.discount"),
    ],
    "train vision --preset debug": [
        *(
            "--steps",
            "--seed",
            "--config.model.slots",
            "--config.model.latents",
            "--config.model.size",
            "--config.batch",
        ),
        *("--config.model.attention-channels", "--config.validation-scenes", "--config.evaluate-every"),
    ],
    "train explore --preset debug": ["--steps", "--seed", "--config.capacity", "--config.envs", "--config.first"],
    "evaluate FOLDER": ["--episodes"],
    "evaluate vision": ["--scenes"],
    "evaluate explore": ["--scenes"],
    "reproduce --preset debug": ["--seeds", "--seed", "--steps", "--final"],
}
NO_NUMBERS = ["abc", "", "-1", "1e999", "nan", "-inf", "99999999999999999999999", "1,5", "0x10", "--"]
PATHS = {  # options that name what is to be read or written
    "watch sorting": ["--out", "--run", "--world"],
    "play-random": ["--out"],
    "solve sorting": ["--world", "--out"],
    "solve": ["--env"],
    "baseline": ["--env"],
    "baseline sorting --features slots": ["--world", "--out"],
    "evaluate FOLDER": ["--out"],
    "train vision": ["--out", "--env"],
    "train explore": ["--out", "--vision", "--env"],
    "evaluate vision": ["--out", "--world", "--vision"],
    "evaluate explore": ["--out", "--world"],
    "figures": ["--results", "--world", "--out"],
    "report": ["--results", "--world", "--out", "--figures"],
    "reproduce": ["--out"],
}
CHOICES = {"watch": "--mode", "play-random": "--variant", "solve": "--predictor", "train vision": "--preset"}
CHOICES |= {"baseline": "--policy"}
OTHERS = (  # where the last two words are not an option and its value, the last one is wrong
    "watch --no-such-option", "solve --no-such-option", "figures --no-such-option", "runs --no-such-option",
    "baseline no_such_task", "nothing", "train", "-", "runs FILE", "runs FILE/nowhere", "evaluate FILE",
    "evaluate FOLDER", "evaluate FOLDER/nowhere",
    "solve sorting --first-seed 4294967295 --seeds 2", "baseline sorting --first-seed 4294967290 --seeds 5",
    "baseline sorting --first-seed 4294967294", "train vision --seed 4294967294", "train explore --seed 4294967295",
    "reproduce --seed 4294967294", "solve sorting --address nowhere:1", "baseline sorting --workers 3",
    "train explore --actors 2", "reproduce --address auto",
)  # fmt: skip


def lines(folder):
    """Command lines with something wrong in each, by command; FILE is a file and FOLDER a folder that exist."""
    numbers = [
        [*command.split(), option, value]
        for command, options in WHOLE.items()
        for option in options
        for value in NO_NUMBERS
    ]
    places = [f"{folder}/FILE/x", f"{folder}/FILE/x/y", f"{folder}/no\u00e9/x.mp4:"]
    paths = []
    for command, options in PATHS.items():
        for option in options:
            values = places[:2] if option in ("--out", "--figures") else places  # the last can be written
            paths += [[*command.split(), option, value] for value in values]
    wrong_kind = [
        [*command.split(), "--out", f"{folder}/{name}"]
        for command, name in (
            *(
                ("watch sorting", "FOLDER"),
                ("watch sorting", "x.mp4"),
                ("play-random", "FOLDER"),
                ("play-random", "x.png"),
            ),
            *(("evaluate vision", "FOLDER"), ("evaluate explore", "x.txt"), ("report", "FOLDER"), ("figures", "FILE")),
            *(("baseline sorting", "FILE"), ("evaluate FOLDER", "x.txt"), ("evaluate FOLDER", "FOLDER")),
            *(("solve sorting", "FILE"), ("train vision", "FILE"), ("train explore", "FILE"), ("reproduce", "FILE")),
        )
    ]
    choices = [[*command.split(), option, value] for command, option in CHOICES.items() for value in ("?", "", "TRAIN")]
    found = {}
    for words in numbers + paths + wrong_kind + choices + [line.split() for line in OTHERS] + [[""]]:
        words = [f"{folder}/{word}" if word.startswith(("FILE", "FOLDER")) else word for word in words]
        found.setdefault(tuple(words[: 1 + (" ".join(words[:2]) in cli.COMMANDS)]), []).append(words)
    return found


def named(words, text):
    """Whether a text, which may be wrapped and framed, names the option or the value that is wrong."""
    text = "".join(text.replace("│", "").split())
    value, option = words[-1], words[-2] if len(words) > 1 else ""
    names = [option, option.rpartition(".")[2].replace("-", "_")] if option.startswith("--") else [value or "''"]
    return any(name in text for name in names) or (len(value) > 2 and value in text)


@given(st.data())
@tries(120)
def test_command_lines_that_cannot_be(tmp_path_factory, data):
    folder = tmp_path_factory.getbasetemp() / "lines"
    (folder / "FOLDER").mkdir(parents=True, exist_ok=True)
    (folder / "FILE").write_text("kept")
    found = lines(folder)
    words = data.draw(st.sampled_from(found[data.draw(st.sampled_from(sorted(found)))]))
    said = io.StringIO()
    outputs = contextlib.redirect_stderr(said), contextlib.redirect_stdout(said)
    with contextlib.chdir(folder.parent), outputs[0], outputs[1], pytest.raises(SystemExit) as stop:
        cli.main(words)
    text = said.getvalue()
    assert stop.value.code == 2, (words, text)
    assert len(text) > 20, words
    assert named(words, text), (words, text)
    assert "Traceback" not in text
    assert (folder / "FILE").read_text() == "kept"
    assert sorted(path.name for path in folder.iterdir()) == ["FILE", "FOLDER"]
