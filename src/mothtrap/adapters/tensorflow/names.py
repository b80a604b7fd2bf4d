"""Private names of TensorFlow that the adapter rests on; tried with 2.21."""

from __future__ import annotations

from typing import Any, Final

import tensorflow as tf

TRIED: Final = ("2.21",)
"""Versions with which everything here was tried."""


def is_tried() -> bool:
    """Return whether the private names were tried with the version that is installed."""
    return str(tf.__version__).rpartition(".")[0] in TRIED


def function_type() -> Any:
    """Return the class of what `tf.function` returns."""
    from tensorflow.python.eager.polymorphic_function import polymorphic_function

    return polymorphic_function.Function


def is_compiled_by_xla(function: Any) -> bool:
    """Return whether a `tf.function` is compiled by XLA."""
    return bool(getattr(function, "_jit_compile", False))


def is_function_graph(graph: Any) -> bool:
    """Return whether a graph is the body of a function, and not of a branch or a loop in one."""
    return type(graph).__name__ == "FuncGraph"


def is_in_xla(graph: Any) -> bool:
    """Return whether a graph, or one around it, is compiled by XLA."""
    from tensorflow.python.ops import control_flow_util

    return bool(control_flow_util.GraphOrParentsInXlaContext(graph))
