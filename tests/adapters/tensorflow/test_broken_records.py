"""The file and the record at which a pipeline fails are found, whatever transforms follow."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

tf = pytest.importorskip("tensorflow", exc_type=ImportError)

from mothtrap.adapters.tensorflow.broken_records import record_at_fault  # noqa: E402
from mothtrap.adapters.tensorflow.errors import explain  # noqa: E402
from mothtrap.adapters.tensorflow.probes.batches import DRAWN  # noqa: E402
from mothtrap.adapters.tensorflow.scene import Scene  # noqa: E402

Make = Callable[[list[str]], Any]


def interleaved(files: list[str]) -> Any:
    return tf.data.Dataset.from_tensor_slices(files).interleave(tf.data.TFRecordDataset)


PIPELINES: dict[str, Make] = {
    "plain": tf.data.TFRecordDataset,
    "interleave": interleaved,
    "shuffle": lambda files: interleaved(files).shuffle(16, seed=0).prefetch(1),
}


def values_of(record: Any) -> Any:
    return tf.io.decode_raw(record, tf.float32)[2]


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    paths = [str(tmp_path / f"part-{part}.tfrecord") for part in range(2)]
    for path in paths:
        with tf.io.TFRecordWriter(path) as writer:
            for number in range(10):
                writer.write(bytes([number]) * 16)
    return paths


def explained(data: Any) -> str:
    """Read a data set until it fails; return the sentence about the failure."""
    DRAWN.opened = data
    with pytest.raises(tf.errors.OpError) as failure:
        list(data)
    found = explain(failure.value, 0, (), Scene(find_record=record_at_fault))
    assert found is not None
    assert found.kind == "data"
    assert found.fixes
    return found.sentence


@pytest.mark.parametrize("name", PIPELINES)
def test_the_record_of_a_damaged_file_is_named(files: list[str], name: str) -> None:
    content = bytearray(Path(files[1]).read_bytes())
    content[4 * 32 + 14] ^= 255
    Path(files[1]).write_bytes(content)
    sentence = explained(PIPELINES[name](files).map(values_of).batch(4))
    assert sentence.endswith(f"is damaged at byte 140, in record 4 of {files[1]}")


def test_the_record_of_a_file_that_is_cut_short_is_named(files: list[str]) -> None:
    content = Path(files[0]).read_bytes()
    Path(files[0]).write_bytes(content[: 7 * 32 + 20])
    sentence = explained(interleaved(files).map(values_of))
    assert sentence.endswith(f"is cut short at byte 224, in record 7 of {files[0]}")


@pytest.mark.parametrize("name", PIPELINES)
@pytest.mark.parametrize(
    ("size", "words"), [(8, "position 2 of axis 0"), (7, "a record of 7 bytes is decoded")]
)
def test_the_record_that_a_function_refuses_is_named(
    files: list[str], name: str, size: int, words: str
) -> None:
    with tf.io.TFRecordWriter(files[1]) as writer:
        for number in range(10):
            writer.write(bytes([number]) * (size if number == 6 else 16))
    sentence = explained(PIPELINES[name](files).map(values_of, num_parallel_calls=2).batch(4))
    assert sentence.startswith(words)
    assert sentence.endswith(f"in record 6 of {files[1]}")


def test_an_example_without_a_feature_is_named(tmp_path: Path) -> None:
    path = str(tmp_path / "examples.tfrecord")
    with tf.io.TFRecordWriter(path) as writer:
        for number in range(5):
            value = tf.train.Feature(float_list=tf.train.FloatList(value=[1.0]))
            feature = {} if number == 3 else {"x": value}
            features = tf.train.Features(feature=feature)
            writer.write(tf.train.Example(features=features).SerializeToString())
    form = {"x": tf.io.FixedLenFeature((1,), tf.float32)}
    data = tf.data.TFRecordDataset(path).map(lambda one: tf.io.parse_single_example(one, form))
    assert explained(data).endswith(f": feature `x`, in record 3 of {path}")


def test_a_record_that_a_function_inside_of_interleave_refuses_is_named(files: list[str]) -> None:
    with tf.io.TFRecordWriter(files[1]) as writer:
        for size in (16, 16, 7, 16):
            writer.write(bytes(size))
    data = tf.data.Dataset.from_tensor_slices(files)
    data = data.interleave(lambda path: tf.data.TFRecordDataset(path).map(values_of))
    assert explained(data.batch(4)).endswith(f"in record 2 of {files[1]}")


@pytest.mark.parametrize(
    ("line", "words"), [("1,x", "field 1 of a line of text"), ("1,2,3", "has 3 fields where 2")]
)
def test_the_line_of_a_text_file_is_named(tmp_path: Path, line: str, words: str) -> None:
    path = tmp_path / "table.csv"
    path.write_text("1,2\n" * 5 + line + "\n1,2\n")
    data = tf.data.TextLineDataset(str(path)).map(lambda one: tf.io.decode_csv(one, [[0.0]] * 2))
    sentence = explained(data.batch(2))
    assert words in sentence
    assert sentence.endswith(f"in line 6 of {path}")


def test_a_picture_that_cannot_be_decoded_is_named(tmp_path: Path) -> None:
    paths = [str(tmp_path / f"{number}.png") for number in range(3)]
    for path in paths:
        tf.io.write_file(path, tf.io.encode_png(tf.zeros((4, 4, 3), tf.uint8)))
    Path(paths[1]).write_bytes(b"<html>not found</html>")
    data = tf.data.Dataset.from_tensor_slices(paths)
    data = data.map(lambda path: tf.io.decode_image(tf.io.read_file(path)))
    assert explained(data.batch(2)).endswith(f"has a different format, in {paths[1]}")


def test_a_file_that_is_compressed_is_named(files: list[str]) -> None:
    Path(files[1]).write_bytes(gzip.compress(Path(files[1]).read_bytes()))
    sentence = explained(tf.data.TFRecordDataset(files))
    assert sentence.endswith(f"a different format: {files[1]}, which is compressed with gzip")


def test_shapes_of_a_batch_that_differ_are_named() -> None:
    data = tf.data.Dataset.range(1, 4).map(lambda size: tf.zeros(size)).batch(2)
    with pytest.raises(tf.errors.OpError) as failure:
        list(data)
    found = explain(failure.value, 0, ())
    assert found is not None
    named = re.match(r"elements of different shapes, one of them \((\d)\), are put", found.sentence)
    assert named is not None
    assert named.group(1) in "12"  # TensorFlow compares them in no fixed order


def test_a_pipeline_that_is_no_graph_is_explained() -> None:
    data = tf.data.Dataset.range(3).map(lambda x: tf.py_function(lambda y: y, [x], tf.int64))
    with pytest.raises(Exception, match="serialize") as failure:
        tf.raw_ops.DatasetToGraphV2(
            input_dataset=data._variant_tensor,
            external_state_policy=2,
            strip_device_assignment=True,
        )
    found = explain(failure.value, 0, ())
    assert found is not None
    assert "cannot be stored as a graph" in found.sentence


def test_shapes_that_cannot_be_concatenated_are_explained() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError) as failure:
        tf.concat([tf.zeros((1, 3)), tf.zeros((1, 2))], 0)
    found = explain(failure.value, 0, ())
    assert found is not None
    assert "(1,3) and (1,2) are concatenated" in found.sentence
