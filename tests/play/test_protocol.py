"""Only messages of the schema get through, whatever arrives."""

import json

import pytest
from fuzz import EXAMPLES, SPRITE, malformed

from cobra_rl.play import protocol
from cobra_rl.runs.worlds import agents_in
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


def test_every_agent_that_is_kept_with_a_world_can_be_chosen():
    for name in agents_in("structured"):
        protocol.read(json.dumps({"type": "agent", "name": f"shipped:{name}", "mode": "train"}))


def test_a_refusal_says_what_is_wrong():
    found = r"^The message 'arrange', sprites, x, is 2; it must be a finite number from 0.0 to 1.0\.$"
    with pytest.raises(protocol.Refused, match=found):
        protocol.read(json.dumps({"type": "arrange", "sprites": [SPRITE | {"x": 2}]}))
    with pytest.raises(protocol.Refused, match="number"):
        protocol.read('{"type": "judge", "value": NaN}')
    found = (
        r"^The message 'save', name, is '../x'; it must be text that is a name of at most 40 letters, digits, - and _"
    )
    with pytest.raises(protocol.Refused, match=found):
        protocol.read('{"type": "save", "name": "../x"}')
    with pytest.raises(
        protocol.Refused, match=r"^The message 'learn' is {}; it must be an object with the entries on\.$"
    ):
        protocol.read('{"type": "learn"}')
    with pytest.raises(protocol.Refused, match=r"^The id of a message is True; it must be a whole number from 0 to "):
        protocol.read('{"type": "look", "id": true}')


def test_its_colours_are_spriteworlds():
    assert all(hue_range(colour) for colour in protocol.COLOURS[1:])
