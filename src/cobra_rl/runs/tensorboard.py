"""TensorBoard's file of events, written by the training thread: a full disk switches it off, and training goes on.

Own code, since tensorboardX has no public way to that: its `SummaryWriter` writes in a thread, and once that has died
of a full disk, training or the end of the process waits for it for ever (tried with queues of 10 and without limit).

The file is a row of records, each with an `Event` of TensorBoard as a protocol buffer; comments name its fields. The
tests read the files with tensorboardX.
"""

import ctypes
import functools
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from time import time, time_ns

FILE_VERSION = 3  # the fields of an event that hold what it tells
SUMMARY = 5
SESSION_LOG = 7
CRC = [functools.reduce(lambda crc, _: crc >> 1 ^ 0x82F63B78 * (crc & 1), range(8), byte) for byte in range(256)]


class EventFile:
    """The scalars and pictures of a run; the first failure is said, and from then on nothing is written.

    TensorBoard forgets what older files of the folder hold from step `first` on.
    """

    def __init__(self, folder: Path, first: int, say: Callable[[str], None]):
        self._path: Path | None = folder / f"events.out.tfevents.{time_ns()}"  # None: switched off
        self._say = say
        self._write(first, FILE_VERSION, b"brain.Event:2")
        self._write(first, SESSION_LOG, _varint(1, 1))  # status: start

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Write numbers by name."""
        # simple_value: a number that is too large for its 32 bits becomes infinite
        fields = {name: bytes([2 << 3 | 5]) + bytes(ctypes.c_float(value)) for name, value in values.items()}
        self._write(step, SUMMARY, b"".join(_value(name, field) for name, field in fields.items()))

    def picture(self, step: int, name: str, png: bytes, *, height: int, width: int) -> None:
        """Write a picture that is encoded as PNG."""
        image = _varint(1, height) + _varint(2, width) + _varint(3, 3) + _bytes(4, png)  # 3 colours, encoded_image
        self._write(step, SUMMARY, _value(name, _bytes(4, image)))

    def _write(self, step: int, field: int, content: bytes) -> None:
        """Write an event: its size and the event itself, each followed by a checksum."""
        if self._path is None:
            return
        event = struct.pack("<Bd", 1 << 3 | 1, time()) + _varint(2, step) + _bytes(field, content)
        size = struct.pack("<Q", len(event))
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with open(self._path, "ab") as file:
                file.write(size + _checksum(size) + event + _checksum(event))
        except OSError as error:
            self._say(f"TensorBoard is switched off: {type(error).__name__}: {error}.")
            self._path = None


def _value(name: str, field: bytes) -> bytes:
    """Encode a value of a summary under its tag."""
    return _bytes(1, _bytes(1, name.encode()) + field)


def _bytes(field: int, value: bytes) -> bytes:
    """Encode a field that holds text, bytes or a message."""
    return bytes([field << 3 | 2]) + _digits(len(value)) + value


def _varint(field: int, value: int) -> bytes:
    """Encode a field that holds a whole number."""
    return bytes([field << 3]) + _digits(value)


def _digits(value: int) -> bytes:
    """Encode a whole number in base 128, the least digit first; the highest bit says that another one follows."""
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + _digits(value >> 7)


def _checksum(data: bytes) -> bytes:
    """Compute the CRC-32C, rotated and shifted as in TensorFlow's records."""
    crc = 0xFFFFFFFF ^ functools.reduce(lambda crc, byte: CRC[(crc ^ byte) & 255] ^ crc >> 8, data, 0xFFFFFFFF)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)
