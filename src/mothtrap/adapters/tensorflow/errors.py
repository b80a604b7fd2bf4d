"""Exceptions of TensorFlow and Keras that end a script, in words."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from mothtrap.core.facts.failures import ScriptFailed
from mothtrap.core.steps import Mode
from mothtrap.tracing import frames

MAX_ERROR = 300
MAX_LIKE = 6
Named = tuple[str, tuple[int | None, ...]]
"""A tensor of the step by name, with its shape; None or 0 where an axis is that of the batch."""


@dataclass(frozen=True, slots=True)
class _Message:
    kind: str
    pattern: re.Pattern[str]
    sentence: str
    fixes: tuple[str, ...]


def _of(kind: str, pattern: str, sentence: str, *fixes: str) -> _Message:
    return _Message(kind, re.compile(pattern, re.DOTALL), sentence, fixes)


SHAPE: Final = r"\[([\d,? ]*)\]"
MESSAGES: Final = (
    _of(
        "label",
        r"label value of (-?\d+) which is outside the valid range of \[0, (\d+)\)",
        "a label is {0}, but the model has outputs for {1} classes, which are numbered from 0",
        "Give the last layer one unit for each class, or number the classes from 0 without gaps.",
    ),
    _of(
        "index",
        r"indices\[?([\d, ]*)\]? = (-?\d+) is not in \[0, (\d+)\)",
        "index {1}, at place [{0}], is looked up in a table of {2} rows",
        "Make the table one row longer than the largest index (`input_dim` of an Embedding), or "
        "map unknown tokens to a row of their own.",
    ),
    _of(
        "shape",
        rf"Matrix size-incompatible: In\[0\]: {SHAPE}, In\[1\]: {SHAPE}",
        "a matrix of shape ({0}) is multiplied by one of shape ({1}): the last axis of the first "
        "must be as long as the first axis of the second",
        "Reshape or transpose one of them; `transpose_b=True` of `tf.matmul` does the latter.",
    ),
    _of(
        "shape",
        rf"ConcatOp : (?:Dimension \d+ in both shapes must be equal|Dimensions of inputs should "
        rf"match).*?shape\[0\] = {SHAPE} vs\. shape\[(\d+)\] = {SHAPE}",
        "tensors of shapes ({0}) and ({2}) are concatenated: all axes but one must be equal",
        "Concatenate along the axis in which they differ, or pad the shorter one.",
    ),
    _of(
        "shape",
        rf"Dimensions must be equal, but are \d+ and \d+ for '{{{{node ([^}}]*)}}}}.*?"
        rf"input shapes: {SHAPE}, {SHAPE}",
        "tensors of shapes ({1}) and ({2}) do not go together in {0}",
        "Bring both to shapes that fit: reshape or transpose one, or give a layer another number "
        "of units. The shapes are those that the program was traced with; ? is the batch.",
    ),
    _of(
        "shape",
        rf"Shapes are {SHAPE} and {SHAPE}\. for '{{{{node ([^}}]*)}}}} = Concat",
        "tensors are concatenated in {2} whose other axes, ({0}) and ({1}), differ",
        "Concatenate along the axis in which they differ, or pad the shorter one.",
    ),
    _of(
        "shape",
        r"Cannot reshape a tensor with (\d+) elements to shape \[[^\]]*\] \((\d+) elements\)",
        "a tensor of {0} values is reshaped to {1} values",
        "Write -1 for the axis of the batch instead of a number.",
    ),
    _of(
        "shape",
        r"Input to reshape is a tensor with (\d+) values, but the requested shape has (\d+)",
        "a tensor of {0} values is reshaped to {1} values",
        "Write -1 for the axis of the batch: its last one may be smaller "
        "(`drop_remainder=True` leaves that batch out).",
    ),
    _of(
        "shape",
        rf"(?:Incompatible shapes|required broadcastable shapes)(?:: {SHAPE} vs\. {SHAPE})?",
        "tensors of shapes ({0}) and ({1}) are combined element by element, which cannot be "
        "broadcast",
        "Bring both to the same shape: `keras.ops.expand_dims`, `keras.ops.squeeze`, or another "
        "number of units.",
    ),
    _of(
        "shape",
        r"[Ii]nput (\d+) (?:of|with name '[^']*' of) layer [\"']?([\w/]+)[\"']? is incompatible "
        r"with the layer: (.*?)(?:\n|$)",
        'layer "{1}" cannot take its input {0}: {2}',
        "Give the data the shape that `keras.Input` names, or change that: Flatten for images "
        "before a Dense layer, `x[..., None]` for images without channels.",
    ),
    _of(
        "shape",
        r"`target` and `output` must have the same (?:shape|rank \(ndim\))\. Received: "
        r"target\.shape=\(([^)]*)\), output\.shape=\(([^)]*)\)",
        "targets of shape ({0}) are compared with outputs of shape ({1})",
        "Class numbers take `sparse_categorical_crossentropy`, one-hot rows "
        "`categorical_crossentropy`; one class against the rest takes `Dense(1)` and "
        "`binary_crossentropy`.",
    ),
    _of(
        "graph",
        r"(?:symbolic `?tf\.Tensor`? as a Python `?bool`?|[Ii]terating over a symbolic)",
        "Python decides by a value (`if`, `while`, `for`) that exists only when the compiled "
        "program runs",
        "Use `tf.cond`, `tf.where` or `keras.ops.where`; in a `tf.function` of your own take "
        "`autograph=False` out.",
    ),
    _of(
        "graph",
        r"(?:'SymbolicTensor' object has no attribute 'numpy'|numpy\(\) is only available when "
        r"eager|Cannot convert a symbolic (?:tf\.)?Tensor)",
        "code of numpy is given a tensor that has no value yet, while the program is traced",
        "Use `keras.ops` or `tf.math` there; to see values use `tf.print`, or "
        "`mothtrap.log_tensor(name, x)`, which works inside of programs.",
    ),
    _of(
        "graph",
        r"tf\.function only supports singleton tf\.Variables created on the first call",
        "a `tf.function` makes a variable in each call",
        "Make layers, optimizers and variables once, outside of the function.",
    ),
    _of(
        "graph",
        r"(?:Cannot serialize protocol buffer of type tensorflow\.GraphDef|GraphDef cannot be "
        r"larger than 2GB)",
        "an array is written into the graph as a constant, which then is larger than 2 GB",
        "Give large arrays to `fit` itself, or read them with `tf.data.Dataset.from_generator`; "
        "`from_tensor_slices` and functions that use an array make it a constant.",
    ),
    _of(
        "data",
        r"Data cardinality is ambiguous.*?'?x'? sizes: ([\d, ]+).*?'?y'? sizes: ([\d, ]+)",
        "x has {0} rows and y has {1}",
        "Build both from the same rows, and drop or shuffle rows of both together.",
    ),
    _of(
        "dtype",
        r"(?:Failed to convert a NumPy array to a Tensor \(Unsupported object type (\w+)\)"
        r"|Invalid dtype: object)",
        "an array holds objects of Python and not numbers",
        'Convert it: `np.asarray(x, dtype="float32")`; lists of different lengths must be padded '
        "first, and texts encoded.",
    ),
    _of(
        "graph",
        r"No gradients provided for any variable",
        "no weight has a gradient: the loss was not computed from the outputs by operations that "
        "have one",
        "Look for `argmax`, casts to integers, `.numpy()` and `stop_gradient` between outputs and "
        "loss; compute the loss inside of the tape.",
    ),
    _of(
        "memory",
        rf"OOM when allocating tensor with shape{SHAPE}",
        "there was no memory left for a tensor of shape ({0})",
        "Make the batch smaller and accumulate (`gradient_accumulation_steps`), or use "
        "`mixed_float16`.",
    ),
)
_COLORS = re.compile(r"\x1b\[\d*m")
_NODE = re.compile(r"Detected at node (\S+) defined at")
_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
_ENTRY = re.compile(r"^[\d,? ]+$")


def explain(error: BaseException, step: int, tensors: Iterable[Named]) -> ScriptFailed | None:
    """Explain an uncaught exception.

    Args:
        error: the exception.
        step: in which it was raised.
        tensors: of that step, by name; those of a shape that the message names are listed.

    Returns:
        None where the message is none of those that are known here.
    """
    text = _COLORS.sub("", str(error))
    for message in MESSAGES:
        found = message.pattern.search(text)
        if found is None:
            continue
        groups = [group or "?" for group in found.groups()]
        node = _NODE.search(text)
        return ScriptFailed(
            step=step,
            mode=Mode.TRAIN,
            kind=message.kind,
            error=f"{type(error).__name__}: {text.splitlines()[0] if text else ''}"[:MAX_ERROR],
            sentence=message.sentence.format(*groups),
            module=_module(node.group(1)) if node else None,
            inputs=tuple(_alike(groups, tensors)) if message.kind == "shape" else (),
            location=_location(error, text),
            fixes=message.fixes,
        )
    return None


def _module(node: str) -> str:
    """The path of the layer in a name such as `sequential_1/dense_2_1/MatMul`."""
    parts = [part for part in node.split("/")[:-1] if part not in ("gradient_tape",)]
    return "/".join(re.sub(r"_1$", "", part) for part in parts)


def _location(error: BaseException, text: str) -> str | None:
    """The user's line that made the operation, else that which ran."""
    lines = [*_FRAME.findall(text)]
    lines += [
        (frame.f_code.co_filename, str(number))
        for frame, number in traceback.walk_tb(error.__traceback__)
    ]
    made = [one for one in _FRAME.findall(text) if frames.is_users_file(one[0])]
    ran = [one for one in lines if frames.is_users_file(one[0])]
    for found in (made, ran):
        if found:
            return frames.line_of(found[-1][0], int(found[-1][1]))
    return None


def _alike(groups: Iterable[str], tensors: Iterable[Named]) -> Iterator[str]:
    """Tensors of the step with a shape of the message; the axis of the batch fits any length."""
    shapes = [
        tuple(int(size) if size.strip().isdigit() else None for size in group.split(",") if size)
        for group in groups
        if _ENTRY.match(group) and "," in group
    ]
    told = 0
    for name, shape in tensors:
        if any(_fits(shape, other) for other in shapes) and told < MAX_LIKE:
            told += 1
            yield f"{name}: ({', '.join(str(size or '?') for size in shape)})"


def _fits(shape: tuple[int | None, ...], other: tuple[int | None, ...]) -> bool:
    return len(shape) == len(other) and all(
        not a or not b or a == b for a, b in zip(shape, other, strict=True)
    )
