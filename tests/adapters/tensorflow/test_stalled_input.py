"""The file and record that a pipeline is working on are named while it yields nothing."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

tf = pytest.importorskip("tensorflow", exc_type=ImportError)

from mothtrap.adapters.tensorflow.probes.batches import DRAWN  # noqa: E402
from mothtrap.adapters.tensorflow.stalled_input import StalledInput  # noqa: E402
from mothtrap.tracing.jobs import blocked_files as blocked  # noqa: E402

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="asks Linux what threads wait for")
DEADLINE_S = 60.0
Make = Callable[[list[str]], Any]


def interleaved(files: list[str]) -> Any:
    paths = tf.data.Dataset.from_tensor_slices(files)
    return paths.interleave(tf.data.TFRecordDataset, cycle_length=2, num_parallel_calls=2)


PIPELINES: dict[str, Make] = {
    "plain": tf.data.TFRecordDataset,
    "interleave": interleaved,
    "shuffle": lambda files: tf.data.TFRecordDataset(files).shuffle(4, seed=0),
    "prefetch": lambda files: tf.data.TFRecordDataset(files).prefetch(2),
}


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    paths = [str(tmp_path / f"part-{part}.tfrecord") for part in range(3)]
    for number, path in enumerate(paths):
        with tf.io.TFRecordWriter(path) as writer:
            for record in range(6):
                writer.write(bytes([number, record]) * 8)
    return paths


class Reader:
    """Reads a data set in a thread until it ends or is released."""

    def __init__(self, data: Any) -> None:
        self._said = StalledInput()
        DRAWN.opens(None, (data,), {})
        self.thread = threading.Thread(target=self._read, args=(data,), daemon=True)
        self.thread.start()

    def _read(self, data: Any) -> None:
        with suppress(tf.errors.OpError):
            list(data)

    def said(self, part: str) -> str:
        """Return what is reported about the pipeline, once a part of it is known."""
        until = time.monotonic() + DEADLINE_S
        said, is_blocked = "", False
        while part not in said and time.monotonic() < until:
            time.sleep(0.02)
            said, is_blocked = self._said()
        assert part in said
        assert is_blocked
        return said


@pytest.mark.parametrize("name", PIPELINES)
def test_a_file_that_does_not_open_is_named(files: list[str], name: str) -> None:
    os.remove(files[1])
    os.mkfifo(files[1])
    reader = Reader(PIPELINES[name](files).map(lambda record: record).batch(2))
    said = reader.said("to open")
    assert said == f"a thread waits for {files[1]} to open, before its first record"
    os.close(os.open(files[1], os.O_WRONLY))
    reader.thread.join()
    assert not StalledInput()().is_blocked


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


@pytest.mark.parametrize("name", PIPELINES)
def test_the_record_of_a_function_that_does_not_return_is_named(
    files: list[str], name: str, gate: threading.Event
) -> None:
    def parsed(record: Any) -> Any:
        if record.numpy() == bytes([1, 4]) * 8:
            gate.wait()
        return record

    data = PIPELINES[name](files).map(lambda one: tf.py_function(parsed, [one], tf.string))
    reader = Reader(data.batch(2).prefetch(1))
    said = reader.said("record 4")
    assert said.startswith(f"`parsed` runs on record 4 of {files[1]}, in line ")
    assert "test_stalled_input.py:" in said
    gate.set()
    reader.thread.join()


def test_a_line_and_a_file_that_a_function_was_given_are_named(
    tmp_path: Path, gate: threading.Event
) -> None:
    path = tmp_path / "numbers.csv"
    path.write_text("1,2\n3,4\n5,6\n")

    def parsed(line: bytes) -> bytes:
        if line in (b"5,6", os.fsencode(path)):
            gate.wait()
        return line

    def through(given: Any) -> Any:
        return tf.numpy_function(parsed, [given], tf.string)

    reader = Reader(tf.data.TextLineDataset([str(path)]).map(through))
    assert f"`parsed` runs on line 3 of {path}, in line" in reader.said("line 3")
    gate.set()
    reader.thread.join()
    gate.clear()
    reader = Reader(tf.data.Dataset.from_tensor_slices([str(path)]).map(through))
    assert f"`parsed` runs on {path}, in line" in reader.said("csv")


def test_the_record_at_a_byte_that_is_waited_for_is_named(
    files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tf.data.TFRecordDataset(files)
    DRAWN.opens(None, (data,), {})
    waited = blocked.BlockedFile(files[2], 32 * 3 + 5, opens=False)
    monkeypatch.setattr(
        "mothtrap.adapters.tensorflow.stalled_input.blocked_files", lambda: [waited]
    )
    assert StalledInput()().text == f"a thread waits for byte 101 of {files[2]}, in record 3"


def test_files_are_only_open_while_another_part_of_the_script_waits(
    files: list[str], gate: threading.Event
) -> None:
    def read() -> None:
        elements = iter(data)
        next(elements)
        gate.wait()

    data = tf.data.TFRecordDataset(files)
    DRAWN.opens(None, (data,), {})
    thread = threading.Thread(target=read)
    thread.start()
    said, until = StalledInput(), time.monotonic() + DEADLINE_S
    while not said().text and time.monotonic() < until:
        time.sleep(0.02)
    assert said() == (f"{files[0]} is open", False)
    gate.set()
    thread.join()
