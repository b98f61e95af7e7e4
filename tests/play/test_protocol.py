"""Only messages of the schema get through, whatever arrives."""

import json

import pytest
from fuzz import EXAMPLES, SPRITE, malformed

from cobra_rl.play import protocol
from cobra_rl.spriteworld import hue_range


@pytest.mark.parametrize("message", EXAMPLES, ids=lambda message: message["type"])
def test_a_message_of_the_schema_is_read(message):
    read = protocol.read(json.dumps(message | {"id": 7}))
    assert read == message | {"id": 7}
    assert protocol.read(json.dumps(message))["id"] is None


def test_there_is_an_example_of_each_message():
    assert {message["type"] for message in EXAMPLES} == set(protocol.SCHEMA)


def test_a_thousand_malformed_messages_are_refused():
    for text in malformed(1000):
        with pytest.raises(protocol.Refused):
            protocol.read(text)


@pytest.mark.parametrize("name", ["", "..", "a/b", "../x", ".hidden", "a" * 41, "a b", "naïve", "a\n"])
def test_names_of_runs_are_no_paths(name):
    with pytest.raises(protocol.Refused):
        protocol.read(json.dumps({"type": "save", "name": name}))
    with pytest.raises(protocol.Refused):
        protocol.read(json.dumps({"type": "agent", "name": f"run:{name}", "mode": "train"}))


def test_a_refusal_says_what_is_wrong():
    with pytest.raises(protocol.Refused, match="sprites: x: must be a number between 0 and 1"):
        protocol.read(json.dumps({"type": "arrange", "sprites": [SPRITE | {"x": 2}]}))
    with pytest.raises(protocol.Refused, match="number"):
        protocol.read('{"type": "judge", "value": NaN}')


def test_its_colours_are_spriteworlds():
    assert all(hue_range(colour) for colour in protocol.COLOURS[1:])
