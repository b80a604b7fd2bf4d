"""Explain exceptions of TensorFlow and Keras that end a script."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from mothtrap.adapters.tensorflow.loss_shapes import explain_loss
from mothtrap.adapters.tensorflow.scene import MadeLayer, Scene, told
from mothtrap.core.facts.failures import ScriptFailed
from mothtrap.core.steps import Mode
from mothtrap.tracing.source import frames

MAX_ERROR = 300
MAX_LIKE = 6
UNKNOWN: Final = Scene()
Named = tuple[str, tuple[int | None, ...]]
"""A tensor of the step by name, with its shape; None or 0 stands for the batch axis."""


@dataclass(frozen=True, slots=True)
class _Message:
    kind: str
    pattern: re.Pattern[str]
    sentence: str
    fixes: tuple[str, ...]


def _of(kind: str, pattern: str, sentence: str, *fixes: str) -> _Message:
    return _Message(kind, re.compile(pattern, re.DOTALL), sentence, fixes)


INPUT: Final = (
    r"[Ii]nput \d+ (?:of|with name '[^']*' of) layer [\"']?([\w/]+)[\"']? is incompatible with the "
    r"layer"
)
RECURRENT_INPUT: Final = INPUT.replace(
    r"([\w/]+)", r"((?:\w+/)*\w*(?:lstm|gru|rnn|bidirectional)\w*)"
)
"""A message of a recurrent layer whose name was not chosen by the user."""
SHAPE: Final = r"\[([\d,? ]*)\]"
MESSAGES: Final = (
    _of(
        "label",
        r"label value of (-?\d+) which is outside the valid range of \[0, (\d+)\)",
        "a label is {0}, but the model has outputs for {1} classes, which are numbered from 0",
        "Give the last layer one unit per class, or number the classes from 0 without gaps.",
    ),
    _of(
        "index",
        r"indices\[?([\d, ]*)\]? = (-?\d+) is not in \[0, (\d+)\)",
        "index {1}, at position [{0}], is looked up in {table} of {2} rows, numbered from 0",
        "Make the table one row longer than the largest index ({input_dim} of an Embedding), or "
        "map unknown tokens to a separate row.",
    ),
    _of(
        "shape",
        rf"Matrix size-incompatible: In\[0\]: {SHAPE}, In\[1\]: {SHAPE}",
        "a matrix of shape ({0}) is multiplied by one of shape ({1}): the last axis of the first "
        "must be as long as the first axis of the second",
        (
            "Reshape or transpose one of them; `transpose_b=True` of `tf.matmul` transposes the "
            "second."
        ),
    ),
    _of(
        "shape",
        rf"ConcatOp : (?:Dimension \d+ in both shapes must be equal|Dimensions of inputs should "
        rf"match).*?shape\[0\] = {SHAPE} vs\. shape\[(\d+)\] = {SHAPE}",
        "tensors of shapes ({0}) and ({2}) are concatenated: all axes but one must be equal",
        "Concatenate along the axis in which they differ, or pad the shorter one.",
    ),
    _of(
        "label",
        rf"Dimensions must be equal, but are \d+ and \d+ for '{{{{node Equal(?:_\d+)?}}}}.*?"
        rf"input shapes: {SHAPE}, {SHAPE}",
        "labels of shape ({0}) are compared with predicted classes of shape ({1}): the metric "
        "expects the other kind of labels",
        "Use `categorical_accuracy` for one-hot labels, and `sparse_categorical_accuracy` for "
        'class numbers; "accuracy" selects the metric that matches the loss.',
    ),
    _of(
        "shape",
        rf"Dimensions must be equal, but are \d+ and \d+ for '{{{{node ([^}}]*)}}}}.*?"
        rf"input shapes: {SHAPE}, {SHAPE}",
        "tensors of shapes ({1}) and ({2}) cannot be combined in {0}",
        "Make the shapes compatible: reshape or transpose one tensor, or change a layer's number "
        "of units. The shapes are from tracing time; ? is the batch.",
    ),
    _of(
        "shape",
        rf"Shapes are {SHAPE} and {SHAPE}\. for '{{{{node ([^}}]*)}}}} = Concat",
        "tensors of shapes ({0}) and ({1}) are concatenated in {2}, but their other axes differ",
        "Concatenate along the axis in which they differ, or pad the shorter one.",
    ),
    _of(
        "shape",
        r"Cannot reshape a tensor with (\d+) elements to shape \[[^\]]*\] \((\d+) elements\)",
        "a tensor of {0} values is reshaped to {1} values",
        "Use -1 for the batch axis instead of a number.",
    ),
    _of(
        "shape",
        r"Input to reshape is a tensor with (\d+) values, but the requested shape has (\d+)",
        "a tensor of {0} values is reshaped to {1} values",
        "Use -1 for the batch axis: the last batch may be smaller (`drop_remainder=True` drops "
        "it).",
    ),
    _of(
        "shape",
        rf"(?:Incompatible shapes|required broadcastable shapes)(?:: {SHAPE} vs\. {SHAPE})?",
        "tensors of shapes ({0}) and ({1}) are combined element by element, which cannot be "
        "broadcast",
        "Give both the same shape: use `keras.ops.expand_dims`, `keras.ops.squeeze`, or a "
        "different number of units.",
    ),
    _of(
        "shape",
        rf"{INPUT}: expected axis -1 of input shape to have value (\d+), but received input with "
        r"shape [(\[]([^)\]]*)",
        "{layer} takes inputs with {1} features in the last axis, but got shape ({2})",
        "Pass data with {1} features, or create the layer and `keras.Input` for the shape of the "
        "data: weights fit only one number of features.",
        "Images and sequences need `Flatten` or pooling before a Dense layer.",
    ),
    _of(
        "shape",
        rf"{RECURRENT_INPUT}: expected (?:min_)?ndim=(3), found ndim=2\. Full shape received: "
        r"[(\[]([^)\]]*)",
        "{layer} takes sequences with {1} axes, including the batch, but got shape ({2})",
        "If a recurrent layer comes before it, set `return_sequences=True` there: without it, a "
        "layer returns only its last output.",
        "Series of single values need a last axis, `x[..., None]`, and text needs an `Embedding`.",
    ),
    _of(
        "shape",
        rf"{INPUT}: expected (?:min_)?ndim=(\d+), found ndim=\d+\. Full shape received: "
        r"[(\[]([^)\]]*)",
        "{layer} takes inputs with {1} axes, including the batch, but got shape ({2})",
        "Images without channels, and series of single values, need a last axis: `x[..., None]`.",
        "A recurrent layer that feeds another needs `return_sequences=True`, and text needs an "
        "`Embedding`.",
    ),
    _of(
        "shape",
        rf"{INPUT}: (.*?)(?:\n|$)",
        "{layer} cannot take its input: {1}",
        "Give the data the shape in `keras.Input`, or change it there: use Flatten for images "
        "before a Dense layer, and `x[..., None]` for images without channels.",
    ),
    _of(
        "graph",
        r"(?:symbolic `?tf\.Tensor`? as a Python `?bool`?|[Ii]terating over a symbolic)",
        "Python branches or loops (`if`, `while`, `for`) on a value that exists only when the "
        "compiled program runs",
        "Use `tf.cond`, `tf.where` or `keras.ops.where`; in your own `tf.function`, remove "
        "`autograph=False`.",
    ),
    _of(
        "graph",
        r"(?:'SymbolicTensor' object has no attribute 'numpy'|numpy\(\) is only available when "
        r"eager|Cannot convert a symbolic (?:tf\.)?Tensor)",
        "numpy code gets a tensor that has no value yet, because the program is being traced",
        "Use `keras.ops` or `tf.math` there. To see values, use `tf.print` or "
        "`mothtrap.log_tensor(name, x)`, which works inside compiled programs.",
    ),
    _of(
        "graph",
        r"tf\.function only supports singleton tf\.Variables created on the first call",
        "a `tf.function` creates a variable in each call",
        "Create layers, optimizers, and variables once, outside the function.",
    ),
    _of(
        "graph",
        r"(?:Cannot serialize protocol buffer of type tensorflow\.GraphDef|GraphDef cannot be "
        r"larger than 2GB)",
        "an array is stored in the graph as a constant, which makes the graph larger than 2 GB",
        "Pass large arrays to `fit` itself, or read them with `tf.data.Dataset.from_generator`; "
        "`from_tensor_slices` and functions that use an array make it a constant.",
    ),
    _of(
        "compressed",
        r"corrupted record at 0 \(Is this even a TFRecord file\?\)",
        "a file that is read as TFRecord has a different format{file}",
        'Read a compressed file with `TFRecordDataset(files, compression_type="GZIP")`, and a '
        "text file with `tf.data.TextLineDataset`.",
    ),
    _of(
        "record",
        r"inflate\(\) failed with error",
        "a compressed file is damaged{record}",
        "Write or copy the file again, and test it with `gzip -t`.",
    ),
    _of(
        "record",
        r"(truncated|corrupted) record at (\d+)",
        "a TFRecord file is {damage} at byte {1}{record}",
        "Write or copy the file again: compare its size and checksum with the source. "
        "`data.ignore_errors()` silently skips records that cannot be read.",
    ),
    _of(
        "element",
        r"(?:Feature: (\S+) \(data type: \w+\) is required but could not be found"
        r"|Key: ([^\s,]+?)(?:, Index: \d+)?\. +(?:Can't parse serialized Example"
        r"|Data types don't match[^\n]*|Number of \w+ values != expected[^\n]*)"
        r"|Could not parse example input)",
        "a serialized `tf.train.Example` does not match what the parser expects{feature}{record}",
        "Compare the features of this record with the description passed to "
        "`tf.io.parse_single_example`. A feature with a `default_value` may be missing, and a "
        "feature of variable length is a `tf.io.VarLenFeature`.",
    ),
    _of(
        "element",
        r"Field (\d+) in record \d+ is not a valid (\w+): ([^\n\[]*)",
        "field {0} of a line of text is not a valid {1}: `{2}`{record}",
        "Correct the line, or skip such lines with `filter`. `skip(1)` skips column names in the "
        "first line.",
    ),
    _of(
        "element",
        r"Expect (\d+) fields but have (\d+) in record",
        "a line of text has {1} fields where {0} are expected{record}",
        "Correct the line: a separator inside a string needs quotes. `record_defaults` needs one "
        "entry per field.",
    ),
    _of(
        "element",
        r"StringToNumberOp could not correctly convert string: ([^\n\[]*)",
        "the text `{0}` is converted to a number{record}",
        "Correct the element, or skip such elements with `filter`.",
    ),
    _of(
        "element",
        r"(?:Unknown image file format|Invalid (?:JPEG|PNG|GIF|BMP) data|jpeg::Uncompress failed"
        r"|Input size should match \(header_size)",
        "an image cannot be decoded: its file is damaged, or has a different format{record}",
        "Copy the file again, convert it to JPEG or PNG, or leave it out.",
    ),
    _of(
        "element",
        r"Input to DecodeRaw has length (\d+) that is not a multiple of (\d+)",
        "a record of {0} bytes is decoded to values of {1} bytes each{record}",
        "The record is truncated, or was written with a different dtype.",
    ),
    _of(
        "element",
        r"slice index (-?\d+) of dimension (\d+) out of bounds",
        "position {0} of axis {1} is read from a tensor that is shorter{record}",
        "Positions are counted from 0. Check `tf.shape(x)[{1}]` first, or skip such elements "
        "with `filter`; `x[{0} : {0} + 1]` gives an empty tensor instead of an error.",
    ),
    _of(
        "shape",
        r"Cannot (?:add tensor to the batch|batch tensors with different shapes).*?"
        rf"(?:{SHAPE}, \[batch\]: |had shape {SHAPE} and element \d+ had shape ){SHAPE}",
        "elements of different shapes, one of them ({2}), are put into one batch",
        "Use `padded_batch`, or give all elements the same shape in `map`.",
    ),
    _of(
        "data",
        r"(?:[Ff]ailed to serialize the input pipeline graph|Serialization error while trying to "
        r"register a dataset|Cannot serialize the dataset)(?:: *([^\n\[]+))?",
        "the pipeline cannot be stored as a graph, which `save`, `tf.data.service`, and "
        "distribution need: {0}",
        "Python functions (`tf.py_function`, `tf.numpy_function`, `from_generator`) and tables "
        "are not part of a graph: use TensorFlow operations in `map`, or write the elements to "
        "TFRecord files first.",
    ),
    _of(
        "data",
        r"Data cardinality is ambiguous.*?'?x'? sizes: ([\d, ]+).*?'?y'? sizes: ([\d, ]+)",
        "x has {0} rows and y has {1}",
        "Build both from the same rows, and always drop or shuffle their rows together.",
    ),
    _of(
        "data",
        r"the generator must return a tuple, either .*? Received: (\[?)",
        "the generator passed to `fit` does not yield tuples",
        "Yield a tuple of inputs and labels: `yield x, y`. Put several inputs into a tuple or a "
        "dict: `yield (x1, x2), y`. A list does not count as a tuple.",
    ),
    _of(
        "data",
        r"Data is expected to be in format .*?found: (\(.*)",
        "a batch has {parts} parts, but `(x, y)` or `(x, y, sample_weight)` is expected",
        "Put several inputs, or several labels, into a separate tuple or dict: `(x1, x2), y`.",
    ),
    _of(
        "data",
        r"`generator` yielded an element (?:that did not match the expected structure|of shape|"
        r"that could not be converted).*?",
        "the generator of a `tf.data.Dataset` yielded an element that does not match its "
        "`output_signature`",
        "Always yield the structure, dtypes, and shapes of the signature: a tuple `(x, y)` if it "
        "has two parts. None is an axis of any length.",
    ),
    _of(
        "data",
        r"(?:^|: |\n)(?:None values not supported|Attempt to convert a value \(None\) with an "
        r"unsupported type|Inputs to a layer should be tensors\. Got 'None')",
        "{none}",
        "End `call` of the model and of each custom layer with `return`. Labels are `y` of "
        "`fit`, or the second part of each element of a dataset: `(x, y)`.",
    ),
    _of(
        "dtype",
        r"(?:Failed to convert a NumPy array to a Tensor \(Unsupported object type (\w+)\)"
        r"|Invalid dtype: object)",
        "an array contains Python objects instead of numbers",
        'Convert it: `np.asarray(x, dtype="float32")`; lists of different lengths must be padded '
        "first, and strings encoded.",
    ),
    _of(
        "graph",
        r"No gradients provided for any variable",
        "no weight has a gradient: {loss} was not computed from the outputs by differentiable "
        "operations",
        "Remove operations without a gradient between outputs and loss: `round`, comparisons "
        "(`>`), `argmax`, casts to int, `.numpy()`, `stop_gradient`. A score based on counts is "
        "only a metric; as a loss, use a function of probabilities, such as "
        "`binary_crossentropy`.",
    ),
    _of(
        "memory",
        rf"OOM when allocating tensor with shape{SHAPE}",
        "not enough memory was left for a tensor of shape ({0})",
        "Make the batch smaller and accumulate (`gradient_accumulation_steps`), or use "
        "`mixed_float16`.",
    ),
    _of(
        "other",
        r"Exception encountered when calling ([\w.]+)\(\)\.\s+(?P<line>[^\n]+)",
        "`{0}` raised: {1}",
    ),
)
RECORD_KINDS: Final = ("record", "compressed", "element")
"""Kinds of messages about one record or file: damaged, compressed, or rejected by a function."""
_COLORS = re.compile(r"\x1b\[\d*m")
_NODE = re.compile(r"Detected at node (\S+) defined at")
_BRACED_NODE = re.compile(r"\[\[{{node ([^}]*)}}\]\]")
_RAW = re.compile(r"{{function_node [^}]*}} ?|\[Op:[^\]]*\]| name: $")
_PART = re.compile(r"shape=\(")
_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
_ENTRY = re.compile(r"^[\d,? ]+$")


def explain(
    error: BaseException, step: int, tensors: Iterable[Named], scene: Scene = UNKNOWN
) -> ScriptFailed | None:
    """Explain an uncaught exception.

    Args:
        error: the exception.
        step: step in which it was raised.
        tensors: tensors of that step, by name; those with a shape that the message contains are
            listed.
        scene: layers, and the `fit` that failed.

    Returns:
        None if the message is unknown.
    """
    text = _COLORS.sub("", str(error))
    node = _NODE.search(text) or _BRACED_NODE.search(text)
    module = _module(node.group(1)) if node else None
    by_loss = explain_loss(error, text, scene)
    if by_loss is not None:
        (sentence, fixes), start = by_loss
        return ScriptFailed(
            step=step,
            mode=Mode.TRAIN,
            kind="shape",
            error=_line(error, text, start),
            sentence=sentence,
            location=_location(error, text),
            fixes=fixes,
        )
    for message in MESSAGES:
        found = message.pattern.search(text)
        if found is None:
            continue
        if message.kind in RECORD_KINDS:
            scene = replace(scene, record=scene.find_record(message.kind))
        groups = [group or "?" for group in found.groups()]
        layer, words = _words(message, groups, node.group(1) if node else "", scene)
        return ScriptFailed(
            step=step,
            mode=Mode.TRAIN,
            kind="data" if message.kind in RECORD_KINDS else message.kind,
            error=_line(error, text, found.start("line" if message.kind == "other" else 0)),
            sentence=message.sentence.format(*groups, **words),
            module=layer or module,
            inputs=tuple(_alike(groups, tensors)) if message.kind == "shape" else (),
            location=_location(error, text),
            fixes=tuple(fix.format(*groups, **words) for fix in message.fixes),
        )
    return None


def _words(
    message: _Message, groups: list[str], node: str, scene: Scene
) -> tuple[str | None, dict[str, str]]:
    """Return the layer in a message, and facts about it and the script for the explanation."""
    layer: MadeLayer | None = None
    words = {"table": "a table", "loss": "the loss", "parts": "?", "input_dim": "`input_dim`"}
    if message.kind == "index":
        if int(groups[1]) >= 0:
            words["input_dim"] = f"`input_dim={int(groups[1]) + 1}` or more"
        layer = scene.embedding(int(groups[2]), node)
        words["table"] = told(layer) if layer is not None else "a table"
    elif "{layer}" in message.sentence:
        layer = scene.layer(groups[0])
        words["layer"] = told(layer) if layer is not None else f'layer "{groups[0]}"'
        groups[1:] = [re.sub(r"^None\b", "batch", group) for group in groups[1:]]
    elif "{parts}" in message.sentence:
        words["parts"] = str(len(_PART.findall(groups[0])))
    if scene.loss:
        words["loss"] = f"`{scene.loss}`"
    words["damage"] = "cut short" if groups[:1] == ["truncated"] else "damaged"
    words["file"] = f": {scene.record}" if scene.record else ""
    words["record"] = f", in {scene.record}" if scene.record else ""
    feature = next((group for group in groups if group != "?"), "")
    words["feature"] = f": feature `{feature}`" if feature else ""
    words["none"] = (
        "`fit` got no labels (`y`), which the loss needs"
        if scene.unlabeled
        else "a tensor is needed, but got None: `call` of the model or of a layer returned "
        "nothing, or labels are missing"
    )
    return (layer.name if layer is not None else None), words


def _line(error: BaseException, text: str, start: int) -> str:
    """Return the type of an exception, and the most informative line of its message."""
    begin = text.rfind("\n", 0, start) + 1
    line = _RAW.sub("", text[begin:].partition("\n")[0]).strip() or text.partition("\n")[0]
    kind = f"{type(error).__name__}: "
    return f"{kind}{line.removeprefix(kind)}"[:MAX_ERROR]


def _module(node: str) -> str:
    """Return the path of the layer in a name such as `sequential_1/dense_2_1/MatMul`."""
    parts = [part for part in node.split("/")[:-1] if part not in ("gradient_tape",)]
    return "/".join(re.sub(r"_1$", "", part) for part in parts)


def _location(error: BaseException, text: str) -> str | None:
    """Return the user's line that created the operation, or else the line that ran."""
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
    """Return tensors of the step with a shape in the message; the batch axis matches any length."""
    shapes = [
        tuple(int(size) if size.strip().isdigit() else None for size in group.split(",") if size)
        for group in groups
        if _ENTRY.match(group) and "," in group
    ]
    count = 0
    for name, shape in tensors:
        if any(_fits(shape, other) for other in shapes) and count < MAX_LIKE:
            count += 1
            yield f"{name}: ({', '.join(str(size or '?') for size in shape)})"


def _fits(shape: tuple[int | None, ...], other: tuple[int | None, ...]) -> bool:
    return len(shape) == len(other) and all(
        not a or not b or a == b for a, b in zip(shape, other, strict=True)
    )
