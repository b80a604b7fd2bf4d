"""Private names of TensorFlow that the adapter rests on; tried with 2.21."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

import tensorflow as tf

from mothtrap.tracing import frames

TRIED: Final = ("2.21",)
"""Versions with which everything here was tried."""


def is_tried() -> bool:
    """Return whether the private names were tried with the version that is installed."""
    return str(tf.__version__).rpartition(".")[0] in TRIED


def function_type() -> Any:
    """Return the class of what `tf.function` returns."""
    from tensorflow.python.eager.polymorphic_function import polymorphic_function

    return polymorphic_function.Function


def line_before_autograph(frame: FrameType) -> tuple[str, int] | None:
    """Return file and line that a user wrote for code that AutoGraph made of it."""
    if "__autograph_generated_file" not in frame.f_code.co_filename:
        return None
    from tensorflow.python.util import tf_stack

    for entry in reversed(tf_stack.extract_stack()):
        if "__autograph" not in entry.filename and frames.is_users_file(entry.filename):
            return str(entry.filename), int(entry.lineno)
    return None


def iterator_type() -> Any:
    """Return the class of the iterators over data sets that `fit` makes."""
    from tensorflow.python.data.ops import iterator_ops

    return iterator_ops.OwnedIterator


def data_of(iterator: Any) -> Any:
    """Return the data set that an iterator reads; None where it does not say."""
    return getattr(iterator, "_dataset", None)


def is_function_graph(graph: Any) -> bool:
    """Return whether a graph is the body of a function, and not of a branch or a loop in one."""
    return type(graph).__name__ == "FuncGraph"


def is_in_xla(graph: Any) -> bool:
    """Return whether a graph, or one around it, is compiled by XLA."""
    from tensorflow.python.ops import control_flow_util

    return bool(control_flow_util.GraphOrParentsInXlaContext(graph))


def is_recorded(tensor: Any) -> bool:
    """Return whether a tape records what is computed of an eager tensor: it depends on weights."""
    from tensorflow.python.eager import record

    return bool(record.should_record_backprop((tensor,)))


def global_seed() -> int | None:
    """Return the seed of `tf.random.set_seed`; None where it was not called."""
    from tensorflow.python.eager import context

    seed = context.global_seed()
    return None if seed is None else int(seed)


def is_deterministic() -> bool:
    """Return whether operations were told to add up in one order (`enable_op_determinism`)."""
    from tensorflow.python.framework import config

    return bool(config.is_op_determinism_enabled())


Parts = tuple[tuple[int, str], ...]
"""Transformations that take a part of a data set: the identity of each, and which part."""
PARTS: Final = {"_TakeDataset": "take", "_SkipDataset": "skip", "_ShardDataset": "shard"}


def inputs_of(data: Any) -> list[Any]:
    """Return the data sets that one is made of; readers of texts say it of their inner one."""
    given = list(data._inputs())
    return given or ([data._impl] if hasattr(data, "_impl") else [])


def every_part(data: Any) -> Iterator[Any]:
    """Yield a data set and all that it is made of, each once."""
    waiting, seen = [data], set[int]()
    while waiting:
        one = waiting.pop()
        if id(one) not in seen:
            seen.add(id(one))
            yield one
            waiting += inputs_of(one)


def transformation(data: Any) -> str:
    """Return what makes a data set, without regard to how many threads do it: `Map`, `Batch`."""
    if hasattr(data, "_impl"):
        return "TFRecordFiles"
    name = type(data).__name__.strip("_").removesuffix("V2").removesuffix("Dataset")
    return name.removeprefix("Parallel")


def function_of(data: Any) -> Callable[..., Any]:
    """Return the user's function of a `map`, `flat_map`, `interleave` or `filter`."""
    wrapped = data._predicate if hasattr(data, "_predicate") else data._map_func
    function: Callable[..., Any] = wrapped._func
    return function


def read_by(data: Any) -> Any:
    """Return the data set that opens one file after the other for a reader of files."""
    return data._impl


def zipped(data: Any) -> Any:
    """Return the data sets of a `zip`, in their structure."""
    return data._datasets


def count_of(data: Any) -> Any:
    """Return how many elements a `skip` leaves out."""
    return data._count


def paths_given(data: Any) -> list[bytes]:
    """Return the texts of a data set of texts, or the files that a reader of tables was given."""
    if transformation(data) == "Csv":
        given = data._filenames
    elif transformation(data) == "TensorSlice" and data.element_spec == tf.TensorSpec(
        (), tf.string
    ):
        given = data._tensors[0]
    else:
        return []
    return [bytes(path) for path in given.numpy().ravel()]


def open_order(data: Any) -> Iterator[str]:
    """Yield the reasons why one transformation of a dataset does not fix the order of elements."""
    seeds = getattr(data, "_seed", None), getattr(data, "_seed2", None)
    if "Shuffle" in type(data).__name__ and not any(
        int(seed) for seed in seeds if seed is not None
    ):
        yield "shuffle without a seed"
    if getattr(data, "_deterministic", None) == "false":
        yield "deterministic=False"


def reshuffled_by(data: Any) -> Iterator[tuple[Any, Parts]]:
    """Yield the shuffles that a data set takes a part of, and that reshuffle in each pass.

    Yields:
        A shuffle, and the parts that are taken of it one after the other.
    """
    waiting: list[tuple[Any, Parts]] = [(data, ())]
    seen: set[int] = set()
    while waiting:
        one, parts = waiting.pop()
        kind = type(one).__name__
        if id(one) in seen or (parts and ("Cache" in kind or "Snapshot" in kind)):
            continue  # what is kept has the order of the first pass
        seen.add(id(one))
        if parts and "Shuffle" in kind and getattr(one, "_reshuffle_each_iteration", False):
            yield one, parts
        part = PARTS.get(kind)
        if part == "shard":
            part = f"shard {int(one._index)}"
        inner = parts if part is None else ((id(one), part), *parts)
        waiting += [(given, inner) for given in inputs_of(one)]


def shuffled_apart(data: Any) -> bool:
    """Return whether inputs and labels of a data set are shuffled in different orders."""
    for one in every_part(data):
        if transformation(one) == "Zip" and _has_labels(one.element_spec):
            orders = [list(_orders(each)) for each in zipped(one)]
            is_known = all(seeds != (0, 0) for order in orders for _, seeds in order)
            if orders[0] != orders[1] or not is_known:
                return True
    return False


def _has_labels(spec: Any) -> bool:
    """Return whether an element is a pair of a tensor and a label for it, alone or in a batch."""
    if type(spec) is not tuple or len(spec) != 2:
        return False
    if not all(isinstance(one, tf.TensorSpec) and one.shape.rank is not None for one in spec):
        return False
    given, label = spec
    return bool(label.shape.rank <= 2 and given.shape.rank > label.shape.rank)


def _orders(data: Any) -> Iterator[tuple[int, tuple[int, int]]]:
    """Yield buffer and seeds of the shuffles that a data set went through."""
    for one in every_part(data):
        if transformation(one) == "Shuffle":
            yield int(one._buffer_size), (int(one._seed), int(one._seed2))


def split_apart(ours: Parts, theirs: Parts) -> bool:
    """Return whether two data sets are different parts of what they have in common."""
    for (one, part), (other, other_part) in zip(ours, theirs, strict=False):
        if one != other:
            return part != other_part
    return False


@contextmanager
def each_operation(act: Callable[..., None]) -> Iterator[None]:
    """Call `act(type, inputs, outputs, attributes)` after each eager operation."""
    from tensorflow.python.framework import op_callbacks

    def called(
        kind: str,
        inputs: Any,
        attrs: Any,
        outputs: Any,
        op_name: str | None = None,
        graph: Any = None,
    ) -> None:
        del op_name
        if graph is None:
            act(kind, inputs, outputs, attrs)

    op_callbacks.add_op_callback(called)
    try:
        yield
    finally:
        op_callbacks.remove_op_callback(called)


def inputs_by_name(kind: str, inputs: Sequence[Any]) -> dict[str, Any] | None:
    """Return the inputs of an operation by their names; None where one of them is a list."""
    from tensorflow.python.framework import op_def_registry

    definition = op_def_registry.get(kind)
    given = list(definition.input_arg) if definition is not None else []
    if len(given) != len(inputs) or any(one.number_attr or one.type_list_attr for one in given):
        return None
    return {one.name: tensor for one, tensor in zip(given, inputs, strict=True)}


def differentiated(frame: FrameType | None) -> tuple[str, Sequence[Any]] | None:
    """Return type and results of the operation whose gradient is computed; None in a forward."""
    while frame is not None:
        code = frame.f_code
        if code.co_name == "_gradient_function" and code.co_filename.endswith("backprop.py"):
            return str(frame.f_locals["op_name"]), tuple(frame.f_locals["outputs"] or ())
        frame = frame.f_back
    return None
