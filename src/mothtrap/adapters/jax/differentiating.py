"""Calls to `jax.value_and_grad` and `jax.grad`: the function, and its arguments."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import jax
from jax.ad_checkpoint import checkpoint_name

from mothtrap.adapters.jax.functions import (
    Book,
    Differentiated,
    Function,
    is_real,
    names_of,
    owner_of,
)
from mothtrap.adapters.jax.shadow import Collector, looked_into
from mothtrap.tracing.source import frames
from mothtrap.tracing.source.frames import line_of

MARK: Final = "mothtrap: a gradient of "
Told = Callable[[Function, Any, bool, Sequence[Any], Any], None]
"""Function that receives a function, `argnums`, `has_aux`, the arguments, and value and gradients.
"""


def telling(raw: Function, book: Book, told: Told, *, returns_value: bool) -> Function:
    """Return the replacement for `jax.value_and_grad` or `jax.grad`.

    Args:
        raw: `jax.value_and_grad`.
        book: record of the functions being traced.
        told: notified of each call; must not raise an exception.
        returns_value: False for `jax.grad`.
    """

    def value_and_grad(fun: Function, *args: Any, **options: Any) -> Function:
        differentiated = raw(fun, *args, **options)
        argnums = args[0] if args else options.get("argnums", 0)
        has_aux = bool(args[1] if len(args) > 1 else options.get("has_aux", False))

        @functools.wraps(differentiated)
        def call(*values: Any, **named: Any) -> Any:
            if book.collector is not None:
                again = {**options, "argnums": argnums, "has_aux": True}
                result = _collected(raw, fun, again, book, values, named, has_aux=has_aux)
            else:
                result = differentiated(*values, **named)
                if book.marks:
                    result = result[0], marked(fun, result[1])
                else:
                    told(fun, argnums, has_aux, values, result)
            value, gradients = result
            if returns_value:
                return value, gradients
            return (gradients, value[1]) if has_aux else gradients

        return call

    return value_and_grad


def marked(fun: Function, gradients: Any) -> Any:
    """Return gradients with a mark that shows in a jaxpr.

    Args:
        fun: the differentiated function.
        gradients: tree of its gradients.
    """
    name = MARK + str(getattr(fun, "__code__", fun))
    return jax.tree.map(lambda one: checkpoint_name(one, name) if is_real(one) else one, gradients)


def describe(
    fun: Function, argnums: Any, has_aux: bool, values: Sequence[Any], result: Any
) -> Differentiated:
    """Describe a call to `value_and_grad`."""
    numbers = [argnums] if isinstance(argnums, int) else list(argnums)
    code = getattr(fun, "__code__", None)
    labels = [_label(code, number) for number in numbers]
    value, gradients = result
    names = names_of([values[number] for number in numbers], labels)
    owner = owner_of(fun)
    if owner is not None and len(owner.names) == len(names):
        names = owner.names
    return Differentiated(
        value=value[0] if has_aux else value,
        arguments=jax.tree_util.tree_leaves([values[number] for number in numbers]),
        gradients=jax.tree_util.tree_leaves(gradients),
        names=names,
        function=getattr(fun, "__name__", "loss"),
        location=_last_line(code),
        auxiliary=value[1] if has_aux else None,
    )


def _collected(
    raw: Function,
    fun: Function,
    options: dict[str, Any],
    book: Book,
    values: Sequence[Any],
    named: dict[str, Any],
    *,
    has_aux: bool,
) -> Any:
    """Compute `value_and_grad`, and observe the operations inside."""
    add, collector = book.collector, Collector()
    argnums = options["argnums"]
    numbers = [argnums] if isinstance(argnums, int) else list(argnums)
    seen = looked_into(fun, collector, numbers)

    def inner(*args: Any, **kwargs: Any) -> Any:
        with _differentiating(book):
            result, found = seen(*args, **kwargs)
        value, aux = result if has_aux else (result, None)
        return value, (aux, found)

    (value, (aux, found)), gradients = raw(inner, **options)(*values, **named)
    result = ((value, aux) if has_aux else value, gradients)
    add(describe(fun, options["argnums"], has_aux, values, result), collector, found)
    return result


@contextmanager
def _differentiating(book: Book) -> Iterator[None]:
    before, book.differentiates = book.differentiates, True
    try:
        yield
    finally:
        book.differentiates = before


def _label(code: Any, number: int) -> str:
    names = code.co_varnames[: code.co_argcount] if code is not None else ()
    return names[number] if number < len(names) else f"argument {number}"


def _last_line(code: Any) -> str | None:
    if code is None or not frames.is_users_file(code.co_filename):
        return frames.user_location()
    lines = [line for *_, line in code.co_lines() if line is not None]
    return line_of(code.co_filename, max(lines)) if lines else None
