"""Find the file records from which the rows of a batch were read.

A `tf.data` pipeline does not report the origin of its elements. So its transformations are built
again, with the name of each element: the file, and the number of the record. Rows are found by
their values, in any order. They cannot be found if a pipeline draws random numbers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from mothtrap.adapters.tensorflow import internals

Array = npt.NDArray[Any]
Row = list[Array]
"""Tensors of one row, without the batch axis."""
SECONDS: Final = 120.0
"""Maximum duration of a search in seconds; records found by then are reported."""
TOGETHER: Final = 1024
"""Number of elements that are compared between two checks of the clock."""
BETWEEN: Final = "\0"
"""Separator between the parts of a name, outermost first."""
UNCHANGED: Final = frozenset(
    {"Options", "Prefetch", "Repeat", "Shuffle", "Cache", "Take", "Shard", "Model", "Snapshot"}
    | {"AssertCardinality", "IgnoreErrors"}
)
"""Transformations that only change the order or number of elements."""
OTHERS_LEFT: Final = frozenset({"Shuffle", "Batch", "PaddedBatch"})
"""Transformations after which `skip` drops different elements in each pass, or counts batches."""
WORDS: Final = {
    "TFRecord": "record",
    "FixedLengthRecord": "record",
    "Csv": "record",
    "TextLine": "line",
}


class NotFollowedError(Exception):
    """A pipeline has a transformation through which names cannot be tracked."""


def records_of(data: Any, rows: Sequence[Row]) -> Iterator[tuple[int, str]]:
    """Yield the index of each row that matches a record, and the record's name.

    Args:
        data: the dataset of batches to which the rows belong.
        rows: tensors of each row, flattened like the elements of the dataset.

    Yields:
        The position in `rows`; a name such as `record 17 of data/part-2.tfrecord`.

    Raises:
        NotFollowedError: the origin of elements cannot be determined.
    """

    def compared(name: Any, element: Any) -> tuple[Any, Any]:
        tensors = [one for one in tf.nest.flatten(element) if one is not None]
        return name, tf.stack([_is_among(row, tensors) for row in rows])

    every = named(data).map(_as_it_is(compared), num_parallel_calls=tf.data.AUTOTUNE)
    until = time.monotonic() + SECONDS
    for name_N, is_like_NR in every.ignore_errors().batch(TOGETHER).as_numpy_iterator():
        for record, row in np.argwhere(is_like_NR):
            yield int(row), told(name_N[record])
        if time.monotonic() > until:
            return


def named(data: Any) -> Any:
    """Return a dataset of the names and elements of one or more datasets, in any order."""
    kind, given = internals.transformation(data), internals.inputs_of(data)
    if kind in UNCHANGED:
        return named(given[0])
    if kind in _CARRIED:
        return _CARRIED[kind](data)
    if given:
        raise NotFollowedError(kind)
    return _source(data, kind)


def _source(data: Any, kind: str) -> Any:
    if data.element_spec == tf.TensorSpec((), tf.string) and kind == "TensorSlice":
        return data.map(lambda path: (path, path))
    if kind == "Tensor":
        return data.map(lambda *one: ("", _packed(one)))
    word = WORDS.get(kind, "sample")
    first = int(word == "line")

    def numbered(index: Any, element: Any) -> tuple[Any, Any]:
        return tf.strings.join([word, tf.strings.as_string(index + first)], " "), element

    return data.enumerate().map(numbered)


def _mapped(data: Any) -> Any:
    function = _converted(internals.function_of(data))

    def mapped(name: Any, element: Any) -> tuple[Any, Any]:
        return name, _packed(function(*unpacked(element)))

    return _given(data).map(_as_it_is(mapped), num_parallel_calls=tf.data.AUTOTUNE)


def _filtered(data: Any) -> Any:
    function = _converted(internals.function_of(data))
    return _given(data).filter(_as_it_is(lambda _, element: function(*unpacked(element))))


def _batched(data: Any) -> Any:
    """Return batches of one row each, so that padded batches have no padding."""

    def alone(name: Any, element: Any) -> tuple[Any, Any]:
        return name, tf.nest.map_structure(lambda one: tf.expand_dims(one, 0), element)

    return _given(data).map(alone)


def _flattened(data: Any) -> Any:
    function = _converted(internals.function_of(data))

    def opened(name: Any, element: Any) -> Any:
        inner = named(function(*unpacked(element)))
        return inner.map(lambda own, one: (tf.strings.join([name, own], BETWEEN), one))

    return _given(data).flat_map(_as_it_is(opened))


def _zipped(data: Any) -> Any:
    inner = internals.zipped(data)
    every = tf.data.Dataset.zip(tuple(map(named, tf.nest.flatten(inner))))

    def joined(*named: Any) -> tuple[Any, Any]:
        return named[0][0], tf.nest.pack_sequence_as(inner, [one for _, one in named])

    return every.map(joined)


def _concatenated(data: Any) -> Any:
    first, second = internals.inputs_of(data)
    return named(first).concatenate(named(second))


def _skipped(data: Any) -> Any:
    """Return the elements of files after `skip`, because a header must not be parsed."""
    [given] = internals.inputs_of(data)
    if any(internals.transformation(one) in OTHERS_LEFT for one in internals.every_part(given)):
        return named(given)
    return named(given).skip(internals.count_of(data))


_CARRIED: Final[dict[str, Callable[[Any], Any]]] = {
    "Map": _mapped,
    "Filter": _filtered,
    "Batch": _batched,
    "PaddedBatch": _batched,
    "FlatMap": _flattened,
    "Interleave": _flattened,
    "TFRecordFiles": lambda data: named(internals.read_by(data)),
    "Zip": _zipped,
    "Concatenate": _concatenated,
    "Skip": _skipped,
}


def _given(data: Any) -> Any:
    [given] = internals.inputs_of(data)
    return named(given)


def _as_it_is(function: Callable[..., Any]) -> Callable[..., Any]:
    converted: Callable[..., Any] = tf.autograph.experimental.do_not_convert(function)
    return converted


def _converted(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a user function whose branches and loops are converted for graphs."""
    if str(function.__module__).startswith("tensorflow."):
        return function
    try:
        converted: Callable[..., Any] = tf.autograph.to_graph(function)
    except Exception:  # no source is available; TensorFlow does not convert such a function either
        return function
    return converted


def unpacked(element: Any) -> tuple[Any, ...]:
    """Return the arguments with which a user function receives an element."""
    return element if type(element) is tuple else (element,)


def _packed(made: Any) -> Any:
    return tuple(made) if isinstance(made, list) else made


def _is_among(row: Row, tensors: Sequence[Any]) -> Any:
    """Return whether a row is part of an element whose tensors have a row axis."""
    every = [_is_like(one, wanted) for one, wanted in zip(tensors, row, strict=False)]
    return tf.reduce_any(tf.reduce_all(tf.stack(every), axis=0)) if every else tf.constant(False)


def _is_like(tensor: Any, wanted: Array) -> Any:
    """Return, for each row of a tensor, whether it has the wanted values, ignoring padding."""
    axes, size = wanted.ndim, np.array(wanted.shape, np.int32)
    tensor = tf.ensure_shape(tensor, [None] * (axes + 1))
    given = tf.shape(tensor)[1:]
    common = tf.minimum(given, size)
    part = tf.slice(tensor, np.zeros(axes + 1, np.int32), tf.concat([[-1], common], 0))
    expected = tf.constant(wanted.astype(tensor.dtype.as_numpy_dtype))
    same = are_same(part, tf.slice(expected, np.zeros(axes, np.int32), common))
    fits = tf.reduce_all((given <= size) & ((given > 0) | (size == 0)))
    return tf.reduce_all(same, axis=list(range(1, axes + 1))) & fits


def are_same(one: Any, other: Any) -> Any:
    """Return whether two values are equal, elementwise for arrays; NaN equals NaN."""
    return (one == other) | ((one != one) & (other != other))


def told(name: bytes) -> str:
    """Return the name of an element as text: `record 17 of data/part-2.tfrecord`."""
    parts = dict.fromkeys(name.decode(errors="replace").split(BETWEEN))
    return " of ".join(part for part in reversed(parts) if part)
