"""Explain targets whose shape does not fit the output, in the loss that compares them."""

from __future__ import annotations

import re
import traceback
from typing import Final

from mothtrap.adapters.tensorflow.scene import Scene

Shape = tuple[str, ...]
Told = tuple[str, tuple[str, ...]]
"""A sentence, and fixes, most likely first."""

SPARSE: Final = ("sparse_categorical_crossentropy", "sparse_softmax_cross_entropy_with_logits")
ONE_HOT: Final = (
    "categorical_crossentropy",
    "categorical_focal_crossentropy",
    "softmax_cross_entropy_with_logits",
)
BINARY: Final = (
    "binary_crossentropy",
    "binary_focal_crossentropy",
    "sigmoid_cross_entropy_with_logits",
)
ELEMENTWISE: Final = (
    "mean_squared_error",
    "mean_absolute_error",
    "mean_absolute_percentage_error",
    "mean_squared_logarithmic_error",
    "huber",
    "log_cosh",
    "poisson",
)
ALIASES: Final = {
    "mse": "mean_squared_error",
    "mae": "mean_absolute_error",
    "mape": "mean_absolute_percentage_error",
    "msle": "mean_squared_logarithmic_error",
}
_LOSSES: Final = frozenset((*SPARSE, *ONE_HOT, *BINARY, *ELEMENTWISE))
_TARGET_OUTPUT: Final = re.compile(r"target\.shape=\(([^)]*)\), output\.shape=\(([^)]*)\)")
_LABELS_LOGITS: Final = re.compile(r"labels\.shape=\(([^)]*)\).*?logits\.shape=\(([^)]*)\)")
_FIRST_AXIS: Final = re.compile(
    r"same first dimension, got logits shape \[([^\]]*)\] and labels shape \[([^\]]*)\]"
)
_BROADCAST: Final = re.compile(
    r"logits and labels must be broadcastable: logits_size=\[([^\]]*)\] labels_size=\[([^\]]*)\]"
)
_ELEMENTWISE: Final = re.compile(
    r"Dimensions must be equal, but are \d+ and \d+ for '{{node [^}]*compile_loss/([^/]+)/[^}]*}}"
    r".*?input shapes: \[([^\]]*)\], \[([^\]]*)\]",
    re.DOTALL,
)
_INCOMPATIBLE: Final = (
    re.compile(r"Incompatible shapes: \[([^\]]*)\] vs\. \[([^\]]*)\]"),
    re.compile(r"Dimensions must be equal, .*?input shapes: \[([^\]]*)\], \[([^\]]*)\]"),
)
_IN_FUNCTION: Final = re.compile(r'File "[^"]*", line \d+, in (\w+)')


def explain_loss(error: BaseException, text: str, scene: Scene) -> tuple[Told, int] | None:
    """Explain an exception about the shapes of targets and outputs.

    Args:
        error: the exception.
        text: its message.
        scene: the model of a `fit` that has failed.

    Returns:
        The explanation, and the position in the text at which its message begins; None for another
        exception.
    """
    called = _called(error, text)
    loss = called or ALIASES.get(scene.loss, scene.loss)
    found = _TARGET_OUTPUT.search(text)
    if found is not None:
        return _explained(loss, found.group(1), found.group(2), scene), found.start()
    found = _LABELS_LOGITS.search(text)
    if found is not None:
        sparse = loss if loss in SPARSE else SPARSE[1]
        return _explained(sparse, found.group(1), found.group(2), scene), found.start()
    found = _FIRST_AXIS.search(text)
    if found is not None:
        sparse = loss if loss in SPARSE else SPARSE[0]
        return _explained(sparse, found.group(2), found.group(1), scene), found.start()
    found = _BROADCAST.search(text)
    if found is not None:
        # TensorFlow puts an axis before class numbers.
        labels = re.sub(r"^1, *", "", found.group(2))
        return _explained(ONE_HOT[2], labels, found.group(1), scene), found.start()
    found = _ELEMENTWISE.search(text)
    if found is not None:
        name = ALIASES.get(found.group(1), found.group(1))
        if (name if name in _LOSSES else loss) in ELEMENTWISE:
            name = name if name in _LOSSES else loss
            return _explained(name, found.group(2), found.group(3), scene), found.start()
    for pattern in _INCOMPATIBLE:
        found = pattern.search(text)
        if found is not None and called in ELEMENTWISE:
            return _explained(called, found.group(1), found.group(2), scene), found.start()
    return None


def _called(error: BaseException, text: str) -> str:
    """Return the loss in whose code the exception arose; empty if not in the traceback."""
    names = [frame.f_code.co_name for frame, _ in traceback.walk_tb(error.__traceback__)]
    names += _IN_FUNCTION.findall(text)
    names = [re.sub(r"_v2(_helper)?$", "", name) for name in names]
    outer = [name for name in names if name in _LOSSES]
    return outer[0] if outer else ""


def _explained(loss: str, target: str, output: str, scene: Scene) -> Told:
    is_compiled = ALIASES.get(scene.loss, scene.loss) == loss
    place = f" (chosen at {scene.loss_at})" if is_compiled and scene.loss_at else ""
    named = f"`{loss}`{place}"
    labels, outputs = _shape(target), _shape(output)
    found: Told | None = None
    if loss not in SPARSE and _are_by_position(labels, outputs):
        found = (
            _compared(named if loss else "", labels, outputs),
            (
                f"If each of the {labels[1]} positions of a sequence has a target, set "
                "`return_sequences=True` in the last recurrent layer to get an output for each.",
                f"Otherwise, pass one target per row, with shape {_text(outputs)}.",
            ),
        )
    elif loss in SPARSE:
        found = _sparse(named, loss, labels, outputs)
    elif loss in ONE_HOT:
        found = _one_hot(named, loss, labels, outputs)
    elif loss in BINARY:
        found = _binary(named, labels, outputs)
    elif loss in ELEMENTWISE and labels[:-1] == outputs[:-1]:
        found = (
            _compared(named, labels, outputs),
            (f"Give the last layer {labels[-1]} units, or the targets {outputs[-1]} columns.",),
        )
    return found or (_compared(named if loss else "", labels, outputs), _FIXES)


def _are_by_position(labels: Shape, outputs: Shape) -> bool:
    """Return whether targets have one more axis than outputs, between the rows and the values."""
    is_longer = len(labels) == len(outputs) + 1 == 3
    return is_longer and (labels[0], labels[2]) == (outputs[0], outputs[1])


_FIXES: Final = (
    "Use `sparse_categorical_crossentropy` for class numbers, and `categorical_crossentropy` for "
    "one-hot rows. For one class against the rest, use `Dense(1)` and `binary_crossentropy`.",
)


def _compared(loss: str, labels: Shape, outputs: Shape) -> str:
    by = f" by {loss}" if loss else ""
    return (
        f"targets of shape {_text(labels)} are compared with outputs of shape {_text(outputs)}{by}"
    )


def _sparse(named: str, loss: str, labels: Shape, outputs: Shape) -> Told:
    wanted = _text(outputs[:-1])
    is_flat = len(labels) == 1 and len(outputs) == 2 and _product(outputs) == labels[0]
    if labels == outputs or is_flat:
        shape = _text(outputs) if is_flat else _text(labels)
        other = "tf.nn." * (loss == SPARSE[1]) + ONE_HOT[2 * (loss == SPARSE[1])]
        return (
            f"one-hot labels of shape {shape} were passed to {named}, which takes class numbers "
            f"of shape {wanted}; the output has shape {_text(outputs)}",
            (f"Use `{other}` for one-hot labels, or pass class numbers: `y.argmax(axis=-1)`.",),
        )
    sentence = (
        f"labels of shape {_text(labels)} were passed to {named}, which takes one class number "
        f"for each row of the output, shape {wanted}; the output has shape {_text(outputs)}"
    )
    if len(outputs) > len(labels) + 1:
        return sentence, (
            "Reduce the output to one row per label: `Flatten`, `GlobalAveragePooling2D`, or "
            "`return_sequences=False` in the last recurrent layer.",
        )
    if len(labels) == len(outputs) > 1 and labels[0] == outputs[0] and labels[1] not in ("1", "?"):
        return sentence, (
            f"If each of the {labels[1]} positions of a sequence has a label, set "
            "`return_sequences=True` in the last recurrent layer to get an output for each.",
            f"Otherwise, pass labels of shape {wanted}, one class number per row.",
        )
    return sentence, (f"Pass labels of shape {wanted}, one class number per row.",)


def _one_hot(named: str, loss: str, labels: Shape, outputs: Shape) -> Told | None:
    classes = outputs[-1] if outputs else "?"
    if len(labels) == 1 or (labels[1:] == ("1",) and classes != "1"):
        other = "tf.nn." * (loss == ONE_HOT[2]) + SPARSE[loss == ONE_HOT[2]]
        return (
            f"class numbers of shape {_text(labels)} were passed to {named}, which takes one-hot "
            f"labels of the output's shape, {_text(outputs)}",
            (
                f"Use `{other}` for class numbers, or pass one-hot labels: "
                f"`keras.utils.to_categorical(y, {classes})`.",
            ),
        )
    if labels[:-1] == outputs[:-1]:
        return (
            f"one-hot labels of shape {_text(labels)} were passed to {named}, but the output has "
            f"shape {_text(outputs)}: {labels[-1]} classes against {classes} units",
            (
                f"Give the last layer {labels[-1]} units; or create labels with as many classes "
                f"as units, `keras.utils.to_categorical(y, {classes})`.",
            ),
        )
    return None


def _binary(named: str, labels: Shape, outputs: Shape) -> Told | None:
    units = outputs[-1] if outputs else "?"
    sentence = (
        f"labels of shape {_text(labels)} were passed to {named}, which takes labels of the "
        f"output's shape, {_text(outputs)}"
    )
    if len(labels) == 1 or (labels[1:] == ("1",) and units != "1"):
        return sentence, (
            'Give the last layer one unit: `Dense(1, activation="sigmoid")`.',
            f"Or keep {units} units with softmax, one for each class, and use "
            "`sparse_categorical_crossentropy`.",
        )
    if units == "1" and labels[:-1] == outputs[:-1]:
        return sentence, (
            f"Give the last layer {labels[-1]} units: with softmax and `categorical_crossentropy` "
            "if exactly one class is right, with sigmoid if several can be.",
            f"If each of the {labels[-1]} positions of a sequence has a label, set "
            "`return_sequences=True` in the last recurrent layer to get an output for each.",
        )
    return None


def _shape(text: str) -> Shape:
    """Format a shape as TensorFlow does, with `batch` for a first axis of any length."""
    sizes = [size.strip() for size in text.split(",") if size.strip()]
    words = ["any" if size in ("None", "?", "-1") else size for size in sizes]
    return tuple("batch" if not axis and word == "any" else word for axis, word in enumerate(words))


def _text(shape: Shape) -> str:
    return f"({', '.join(shape)}{',' * (len(shape) == 1)})"


def _product(shape: Shape) -> str:
    sizes = [int(size) for size in shape if size.isdigit()]
    return str(sizes[0] * sizes[1]) if len(sizes) == 2 else ""
