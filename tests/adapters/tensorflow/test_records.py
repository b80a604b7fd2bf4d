"""The rows of a batch are located in the files that their pipeline reads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow", exc_type=ImportError)

from mothtrap.adapters.tensorflow.records import NotFollowedError, records_of  # noqa: E402

FILES, RECORDS = 3, 40


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Write files of records: three numbers, the second 100 * file + record, and a label."""
    rng = np.random.default_rng(0)
    every = []
    for number in range(FILES):
        path = str(tmp_path / f"part-{number}.tfrecord")
        every.append(path)
        with tf.io.TFRecordWriter(path) as writer:
            for record in range(RECORDS):
                row = rng.normal(size=4).astype("f4")
                row[1] = 100 * number + record
                row[2] = np.nan if record == 17 else row[2]
                writer.write(row.tobytes())
    return every


def parse(record: Any) -> Any:
    row = tf.io.decode_raw(record, tf.float32)
    if row[0] > 0:  # converted by AutoGraph
        row = tf.concat([2 * row[:1], row[1:]], 0)
    return {"x": row[:3]}, row[3]


def halved(x: Any, y: Any) -> Any:
    return {"x": x["x"] / 2}, y


def opened(files: list[str]) -> Any:
    return tf.data.TFRecordDataset(files)


PIPELINES: dict[str, Callable[[list[str]], Any]] = {
    "shuffled": lambda files: opened(files).map(parse).shuffle(50).repeat().batch(8).map(halved),
    "in parallel": lambda files: (
        tf.data.TFRecordDataset(files, num_parallel_reads=2)
        .map(parse, num_parallel_calls=2)
        .cache()
        .padded_batch(8)
        .take(5)
        .prefetch(2)
    ),
    "interleaved": lambda files: (
        tf.data.Dataset.from_tensor_slices(files)
        .shuffle(3)
        .interleave(tf.data.TFRecordDataset, cycle_length=2)
        .map(parse)
        .filter(lambda x, _: x["x"][1] >= 0)
        .batch(8)
    ),
    "parsed by file": lambda files: (
        tf.data.Dataset.from_tensor_slices(files)
        .flat_map(lambda file: tf.data.TFRecordDataset(file).map(parse))
        .batch(8)
        .skip(2)
    ),
    "one after the other": lambda files: (
        opened(files[:1]).concatenate(opened(files[1:])).map(parse).shuffle(9).batch(4)
    ),
}


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_file_and_record_are_named(files: list[str], pipeline: str) -> None:
    data = PIPELINES[pipeline](files)
    x, y = next(iter(data))
    rows = [[x["x"][row].numpy(), y[row].numpy()] for row in (0, 3)]
    scale = 2 if pipeline == "shuffled" else 1
    marks = [int(row[0][1] * scale) for row in rows]
    expected = [f"record {mark % 100} of {files[mark // 100]}" for mark in marks]
    assert dict(records_of(data, rows)) == dict(enumerate(expected))


def test_rows_with_nan_are_found(files: list[str]) -> None:
    data = opened(files).map(parse).shuffle(FILES * RECORDS).batch(FILES * RECORDS)
    x, y = next(iter(data))
    bad = np.flatnonzero(np.isnan(x["x"]).any(axis=1))
    found = records_of(data, [[x["x"][row].numpy(), y[row].numpy()] for row in bad])
    assert sorted(name for _, name in found) == [f"record 17 of {file}" for file in files]


def test_lines_are_counted_from_one_and_headers_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("a,b\n" + "".join(f"{number}.5,{number}\n" for number in range(20)))
    data = tf.data.TextLineDataset(str(path)).skip(1)
    data = data.map(lambda line: tf.io.decode_csv(line, [0.0, 0.0])).batch(4)
    assert list(records_of(data, [[np.float32(7.5), np.float32(7)]])) == [(0, f"line 9 of {path}")]


def test_one_file_a_sample(tmp_path: Path) -> None:
    for number in range(6):
        (tmp_path / f"{number}.bin").write_bytes(bytes([number, 1]))
    files = tf.data.Dataset.list_files(str(tmp_path / "*.bin"), seed=0)
    data = files.map(lambda path: tf.io.decode_raw(tf.io.read_file(path), tf.uint8)).batch(3)
    found = records_of(data, [[np.array([4, 1], np.uint8)]])
    assert list(found) == [(0, str(tmp_path / "4.bin"))]


def test_arrays_and_generators_are_counted() -> None:
    slices = tf.data.Dataset.from_tensor_slices(np.arange(30, dtype="f4"))
    pairs = tf.data.Dataset.zip((slices, tf.data.Dataset.range(30))).shuffle(30).batch(5)
    assert list(records_of(pairs, [[np.float32(12), np.int64(12)]])) == [(0, "sample 12")]
    signature = tf.TensorSpec((), tf.int32)
    made = tf.data.Dataset.from_generator(lambda: iter(range(9)), output_signature=signature)
    assert list(records_of(made.batch(2), [[np.int32(5)]])) == [(0, "sample 5")]


def test_what_is_drawn_at_random_is_not_found(files: list[str]) -> None:
    draws = np.random.default_rng(0)

    def drawn_number() -> Any:
        return tf.numpy_function(lambda: np.float32(draws.random()), [], tf.float32)

    data = opened(files).map(lambda record: (parse(record)[1], drawn_number())).batch(4)
    label, drawn = next(iter(data))
    assert list(records_of(data, [[label[0].numpy(), drawn[0].numpy()]])) == []


def test_what_makes_other_elements_is_not_followed(files: list[str]) -> None:
    data = opened(files).batch(4).unbatch().map(parse).batch(4)
    with pytest.raises(NotFollowedError, match="Unbatch"):
        list(records_of(data, [[np.zeros(3, "f4")]]))
