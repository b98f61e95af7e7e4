"""Files that are written whole or not at all, and JSON with one sentence when it is wrong."""

import errno
import os
import stat
import threading
from pathlib import Path

import pytest

from cobra_rl.storage.files import read_json, write_atomically, write_json


def test_writers_of_the_same_file_do_not_get_in_each_others_way(tmp_path: Path):
    path, errors = tmp_path / "new" / "file", []
    contents = [bytes([65 + i]) * 100_000 for i in range(8)]

    def write(content: bytes) -> None:
        try:
            for _ in range(20):
                write_atomically(path, (content[i : i + 30_000] for i in range(0, len(content), 30_000)))
        except OSError as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(content,)) for content in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert path.read_bytes() in contents
    assert [file.name for file in path.parent.iterdir()] == ["file"]


def test_others_may_read_what_is_written(tmp_path: Path):
    (tmp_path / "plain").write_bytes(b"")
    write_atomically(tmp_path / "ours", b"")
    assert stat.S_IMODE((tmp_path / "ours").stat().st_mode) == stat.S_IMODE((tmp_path / "plain").stat().st_mode)


def test_an_error_of_the_disk_names_the_file_and_leaves_the_old_one(tmp_path: Path, monkeypatch):
    path = tmp_path / "file"
    write_atomically(path, b"old")

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left on device") as error:
        write_atomically(path, b"new")
    assert (error.value.errno, error.value.filename) == (errno.ENOSPC, str(path))
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(FileExistsError, match="file"):
        write_atomically(path / "below", b"")


def test_json_comes_back(tmp_path: Path):
    record = {"name": "Größe", "values": [1, 0.1, None], "nested": {"a": True}}
    write_json(tmp_path / "new" / "a.json", record)
    assert read_json(tmp_path / "new" / "a.json") == record
    assert (tmp_path / "new" / "a.json").read_text().startswith('{\n  "name": ')


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"", "is not a JSON file"),
        (b'{"a": 1', "is not a JSON file"),
        (b"\xff\xfe\x00", "is not a JSON file"),
        (b"[" * 100_000, "is not a JSON file"),
        (b"[1]", "holds a JSON list where a dict is expected"),
        (b"null", "holds a JSON NoneType where a dict is expected"),
    ],
)
def test_what_is_no_json_is_one_sentence_that_names_the_file(tmp_path: Path, text, says):
    path = tmp_path / "a.json"
    path.write_bytes(text)
    with pytest.raises(ValueError, match=says) as error:
        read_json(path)
    sentence = str(error.value)
    assert sentence.startswith(str(path))
    assert sentence.endswith(".")
    assert "\n" not in sentence


def test_json_that_is_not_there_or_cannot_be_written_is_one_sentence(tmp_path: Path):
    with pytest.raises(ValueError, match=f"^There is no file {tmp_path / 'a.json'}\\.$"):
        read_json(tmp_path / "a.json")
    with pytest.raises(ValueError, match=f"^{tmp_path} cannot be read: Is a directory\\.$"):
        read_json(tmp_path)
    for record in ({"a": float("nan")}, {"a": object()}):
        with pytest.raises(ValueError, match=f"^{tmp_path / 'a.json'} cannot be written: "):
            write_json(tmp_path / "a.json", record)
    assert not list(tmp_path.iterdir())
