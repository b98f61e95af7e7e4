"""The folder of a run: which older runs are the same as what is asked for now, and which are not."""

import json

import pytest

from cobra_rl.config import ExploreConfig
from cobra_rl.models.transition import LawConfig, TransitionConfig
from cobra_rl.runs.folder import OtherRun, open_run
from cobra_rl.runs.settings import ExploreSettings

LAW = ExploreConfig(transition=LawConfig(hidden=(16,)))


def begin(folder, config, **entries):
    with open_run(folder, ExploreSettings(config=config, seed=0, vision="abc", **entries)):
        pass


def change(folder, **entries):
    """Change the recorded settings of the transition model; None: take an entry out, as in an older run."""
    record = json.loads((folder / "run.json").read_text())
    recorded = record["settings"]["config"]["transition"] | entries
    record["settings"]["config"]["transition"] = {name: value for name, value in recorded.items() if value is not None}
    (folder / "run.json").write_text(json.dumps(record))


def test_a_nested_setting_that_is_newer_than_the_run_takes_the_default_of_its_kind(tmp_path):
    begin(tmp_path, LAW)
    change(tmp_path, place_cost=None)
    begin(tmp_path, LAW)
    change(tmp_path, place_cost=None)
    dearer = ExploreConfig(transition=LawConfig(hidden=(16,), place_cost=5.0))
    with pytest.raises(OtherRun, match=r"\(config.transition.place_cost: 1.0, now 5.0\)"):
        begin(tmp_path, dearer)


def test_another_kind_of_model_is_another_run_even_where_all_its_own_settings_are_defaults(tmp_path):
    begin(tmp_path, ExploreConfig(transition=TransitionConfig(hidden=(16,))))
    with pytest.raises(OtherRun, match=r"config\.transition\.class: paper, now law"):
        begin(tmp_path, LAW)


def test_a_setting_that_is_no_more_makes_another_run(tmp_path):
    begin(tmp_path, LAW)
    change(tmp_path, friction=0.5)
    with pytest.raises(OtherRun, match=r"config\.transition\.friction: 0.5, now None"):
        begin(tmp_path, LAW)


def test_an_entry_that_is_newer_than_the_run_takes_its_default(tmp_path):
    begin(tmp_path, LAW)
    record = json.loads((tmp_path / "run.json").read_text())
    del record["settings"]["actors"]
    (tmp_path / "run.json").write_text(json.dumps(record))
    begin(tmp_path, LAW)
    with pytest.raises(OtherRun, match=r"actors: local, now ray"):
        begin(tmp_path, LAW, actors="ray")


def test_a_run_of_version_0_2_goes_on_under_the_names_of_now(tmp_path):
    config = ExploreConfig(transition=LawConfig(hidden=(16,)), ema_decay=0.5, min_replay_size=7)
    begin(tmp_path, config)
    record = json.loads((tmp_path / "run.json").read_text())
    recorded = record["settings"]["config"]
    recorded["average"] = recorded.pop("ema_decay")
    recorded["first"] = recorded.pop("min_replay_size")
    (tmp_path / "run.json").write_text(json.dumps(record))
    begin(tmp_path, config)
    with pytest.raises(OtherRun, match=r"config\.ema_decay: 0.5, now 0.0"):
        begin(tmp_path, LAW)
