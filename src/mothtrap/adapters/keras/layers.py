"""Names, activations, locations, and weights of Keras layers, as used in facts."""

from __future__ import annotations

import math
import weakref
from typing import Any, Final

import keras

from mothtrap.adapters.keras import internals
from mothtrap.core.tensors import Role

RECTIFIERS: Final = frozenset({"relu", "relu6"})
SATURATING: Final = {"sigmoid": "sigmoid", "tanh": "tanh"}
"""Activations whose units saturate, with the name of their function."""
_CLASSES: Final = {"ReLU": "relu", "Softmax": "softmax", "LeakyReLU": "leaky_relu"}
_VIEWS: Final = frozenset({"Flatten", "Reshape", "Permute", "Dropout", "InputLayer", "Identity"})
LOCATIONS: Final[weakref.WeakKeyDictionary[Any, str]] = weakref.WeakKeyDictionary()
"""Lines that created layers, models and optimizers."""
COMPILED: Final[weakref.WeakKeyDictionary[Any, str]] = weakref.WeakKeyDictionary()
"""Lines that compiled models."""
OWNERS: Final[weakref.WeakValueDictionary[int, Any]] = weakref.WeakValueDictionary()
"""Layer of a variable, by the variable's identity."""
GIVEN: Final[weakref.WeakValueDictionary[int, Any]] = weakref.WeakValueDictionary()
"""Variables to which values were assigned after their creation, by identity."""

_OWNED: Final[weakref.WeakKeyDictionary[Any, int]] = weakref.WeakKeyDictionary()
"""Number of known variables, by root."""
_PLAIN: Final[dict[int, PlainVariable]] = {}


class PlainVariable:
    """A backend variable with the attributes of a Keras variable."""

    def __init__(self, variable: Any) -> None:
        self.value = variable
        self.name = self.path = str(variable.name).partition(":")[0]
        self.shape = tuple(variable.shape)
        self.dtype = getattr(variable.dtype, "name", str(variable.dtype))


def name_of(layer: Any) -> str:
    """Return the path of a layer (`sequential/dense`), or else its name."""
    for variable in getattr(layer, "variables", ()):
        owner, _, own = str(variable.path).rpartition("/")
        if owner and own and owner.endswith(layer.name):
            return owner
    return str(getattr(layer, "path", None) or layer.name)


def type_of(layer: Any) -> str:
    """Return the name of a layer's class."""
    return type(layer).__name__


def activation_of(layer: Any) -> str:
    """Return the name of a layer's final activation function; '' if there is none."""
    known = _CLASSES.get(type_of(layer))
    if known:
        return "leaky_relu" if getattr(layer, "negative_slope", 0) else known
    if isinstance(layer, keras.layers.RNN):
        return ""
    function = getattr(layer, "activation", None)
    return str(getattr(function, "__name__", "")) if function is not None else ""


def role_of(layer: Any) -> Role:
    """Return the role of a layer for rules, such as `rectifier`."""
    activation = activation_of(layer)
    if activation in RECTIFIERS:
        return "rectifier"
    return "saturating" if activation in SATURATING else ""


def chain_of(layer: Any) -> tuple[str, ...]:
    """Return the operations of a layer, last first, in the format of `LossCall.chain`."""
    kind = type_of(layer)
    if kind in _VIEWS:
        return ("view",)
    activation = activation_of(layer)
    own = () if activation in ("", "linear") else (activation,)
    return (*own, "linear") if kernel_of(layer) is not None else own or (kind.lower(),)


def kernel_of(layer: Any) -> Any:
    """Return the variable by which a layer multiplies its input; None if there is none."""
    if looks_up(layer):
        return None
    holder = getattr(layer, "cell", layer)
    kernel = getattr(holder, "kernel", None) if getattr(layer, "built", False) else None
    return kernel if kernel is not None and len(getattr(kernel, "shape", ())) >= 2 else None


def looks_up(layer: Any) -> bool:
    """Return whether a layer maps integers to rows of a table."""
    return isinstance(layer, keras.layers.Embedding)


def fan_in(kernel: Any) -> int:
    """Return the number of inputs of each unit of a kernel."""
    return max(1, math.prod(int(size) for size in kernel.shape[:-1]))


def is_grid(layer: Any) -> bool:
    """Return whether the features of a layer's input are channels of a grid."""
    return "Conv" in type_of(layer)


def normalizes(layer: Any) -> bool:
    """Return whether a layer normalizes its input."""
    return "Normalization" in type_of(layer)


def is_dropout(layer: Any) -> bool:
    """Return whether a layer drops or perturbs values in training, with a rate above 0."""
    kind = type_of(layer)
    if "Dropout" not in kind and kind != "GaussianNoise":
        return False
    return bool(getattr(layer, "rate", 0) or getattr(layer, "stddev", 0))


def dropped(layer: Any) -> float:
    """Return the share of values that a dropout drops; 0 if it only perturbs them."""
    kind, rate = type_of(layer), getattr(layer, "rate", 0.0)
    drops = "Dropout" in kind and not kind.startswith("Gaussian")
    return float(rate) if drops and isinstance(rate, int | float) else 0.0


def is_batch_norm(layer: Any) -> bool:
    """Return whether a layer normalizes with batch statistics in training."""
    return isinstance(layer, keras.layers.BatchNormalization) and layer.trainable


def averages_are_new(norm: Any) -> bool:
    """Return whether a batch norm was created here with averages that were not loaded."""
    return norm in LOCATIONS and GIVEN.get(id(norm.moving_mean)) is not norm.moving_mean


def is_bias(variable: Any) -> bool:
    """Return whether a variable is added instead of multiplied."""
    return str(variable.name) in ("bias", "beta")


def looks_untouched(kernel: Any, layer: Any, values: Any) -> bool | None:
    """Return whether a kernel looks newly initialized; None if unknown.

    Args:
        kernel: kernel of the layer.
        layer: layer with a `kernel_initializer`.
        values: values of the kernel, on the host.
    """
    if GIVEN.get(id(kernel)) is kernel:
        return False
    initializer = getattr(layer, "kernel_initializer", None)
    scale, mode = getattr(initializer, "scale", None), getattr(initializer, "mode", "")
    if scale is None or values.size < 64:
        return None
    inputs = fan_in(kernel)
    outputs = math.prod(int(s) for s in (*kernel.shape[:-2], kernel.shape[-1]))
    fan = {"fan_in": inputs, "fan_out": outputs, "fan_avg": (inputs + outputs) / 2}.get(mode)
    if not fan:
        return None
    # Six standard errors of a deviation.
    slack = 6 * math.sqrt(2.0 / (4 * values.size))
    return bool(abs(float(values.std()) / math.sqrt(scale / fan) - 1) < slack)


def own(layer: Any) -> None:
    """Record which layer owns its variables."""
    for variable in layer.trainable_variables:
        OWNERS[id(variable)] = layer


def own_all(root: Any) -> None:
    """Record the owner of the variables of all sublayers."""
    if root not in _OWNED or _OWNED[root] != len(root.trainable_variables):
        _OWNED[root] = len(root.trainable_variables)
        for layer in internals.leaves(root):
            own(layer)


def as_keras(variable: Any) -> Any:
    """Return the Keras variable for a path, also for a TensorFlow variable."""
    if hasattr(variable, "path"):
        return variable
    return _PLAIN.setdefault(id(variable), PlainVariable(variable))


def has_penalty(layer: Any) -> bool:
    """Return whether a layer adds a penalty on its weights or output to the loss."""
    penalized = any(getattr(v, "regularizer", None) is not None for v in layer.trainable_variables)
    return penalized or getattr(layer, "activity_regularizer", None) is not None
