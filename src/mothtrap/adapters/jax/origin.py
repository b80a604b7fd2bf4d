"""Find the first operation of a step with a non-finite result, by evaluating its jaxpr."""

from __future__ import annotations

import inspect
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import jax
import numpy as np

from mothtrap.adapters.jax import internals
from mothtrap.adapters.jax.functions import MOMENTS, Layout, name_of
from mothtrap.adapters.jax.graph import Evaluation
from mothtrap.adapters.jax.internals import Caller
from mothtrap.adapters.jax.jitted import Jitted
from mothtrap.adapters.jax.leaves import batch_of
from mothtrap.core.facts.data import NonfiniteInput
from mothtrap.core.facts.nonfinite import FirstBadOperation

MAX_S: Final = 60.0
"""Maximum duration of a search in seconds."""
MAX_ROWS: Final = 8
SLOPES: Final = frozenset({"sqrt", "rsqrt", "cbrt", "log", "pow", "acos", "asin"})
"""Operations whose derivative is infinite at the edge of their domain."""
HARMLESS: Final = frozenset({"select_n", "stop_gradient", "copy", "broadcast_in_dim", "squeeze"})


@dataclass(frozen=True, slots=True, eq=False)
class Bad:
    """An operation whose result is not finite.

    Attributes:
        nan: whether its result contains NaN, not only infinities.
        causes: operations that produced the non-finite arguments.
        from_constant: whether an argument is not finite, and no operation produced it.
        given_nan: whether an argument contains NaN, and no operation produced it.
        derivative: the function whose derivative it computes; '' if it computes none.
    """

    operation: str
    scope: str
    location: str | None
    inputs: tuple[str, ...]
    rows: tuple[int, ...]
    nan: bool
    causes: tuple[Bad, ...]
    from_constant: bool
    given_nan: bool
    derivative: str = ""


class TooLong(Exception):
    """The search exceeds its time limit."""


class Search:
    """Observes operations, and records the origin of non-finite values.

    Args:
        count: number of rows of the batch; 0 if unknown.
    """

    def __init__(self, count: int = 0) -> None:
        self._count = count
        self._bad: dict[int, Bad | None] = {}
        self._kept: list[Any] = []
        self._slopes: dict[int, str] = {}
        self._until = time.monotonic() + MAX_S

    def operation(
        self, eqn: Any, caller: Caller, values: Sequence[Any], results: Sequence[Any]
    ) -> None:
        """Check the result of an operation."""
        if time.monotonic() > self._until:
            raise TooLong
        if eqn.primitive.name in SLOPES:
            self._slopes.update((id(result), eqn.primitive.name) for result in results)
            self._kept += results
        for result in results:
            if not _is_float(result) or _is_finite(result):
                continue
            value = np.asarray(result)
            bad = [one for one in values if _is_float(one) and not _is_finite(one)]
            known = [self._bad.get(id(one)) for one in bad]
            self._bad[id(result)] = Bad(
                operation=eqn.primitive.name,
                scope=caller.scope,
                location=internals.line_of_equation(eqn, caller),
                inputs=tuple(_range(one) for one in values if _is_float(one))[:4],
                rows=self._rows(value, caller),
                nan=_has_nan(value),
                causes=tuple(one for one in known if one is not None),
                from_constant=any(one is None for one in known),
                given_nan=any(
                    origin is None and _has_nan(one) for one, origin in zip(bad, known, strict=True)
                ),
                derivative=self._derivative(eqn.primitive.name, caller, values),
            )
            self._kept.append(result)

    def _derivative(self, operation: str, caller: Caller, values: Sequence[Any]) -> str:
        """Return the function whose derivative an operation of a gradient computes."""
        if "jvp(" not in caller.scope:
            return ""
        known = (self._slopes.get(id(value)) for value in values)
        return caller.name or next(filter(None, known), operation)

    def _rows(self, value: np.ndarray[Any, Any], caller: Caller) -> tuple[int, ...]:
        """Return the non-finite rows of a result; in a scan over the batch, its position."""
        turn, length = caller.turn or (0, 0)
        if length and length == self._count and (value.ndim < 1 or len(value) != length):
            return (turn,)
        return _rows(value)

    def of(self, value: Any) -> Bad | None:
        """Return the operation that produced a value, if the value is not finite."""
        return self._bad.get(id(value))


def origin_of(bad: Bad) -> Bad:
    """Return the operation that first produced the non-finite value of a bad operation.

    NaN has priority over infinities; an infinity that a program uses as a constant (a mask) has no
    origin.
    """
    seen: set[int] = set()
    while id(bad) not in seen:
        seen.add(id(bad))
        causes = [one for one in bad.causes if one.nan] or [
            one for one in bad.causes if not _is_constant(one)
        ]
        if not causes:
            break
        bad = causes[0]
    return bad


def _is_constant(bad: Bad) -> bool:
    """Return whether an infinity is a constant of the program that was only passed on."""
    if bad.nan or bad.operation not in HARMLESS:
        return False
    return bad.from_constant or (bool(bad.causes) and all(map(_is_constant, bad.causes)))


def first_bad_operation(
    jitted: Jitted,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    *,
    step: int,
    targets: Sequence[int],
) -> FirstBadOperation | None:
    """Repeat a step, operation by operation, and name the first with a non-finite result.

    Args:
        jitted: the compiled function.
        args: arguments that the step was called with.
        kwargs: keyword arguments by name.
        step: number of the step.
        targets: results to check, the loss first.

    Returns:
        None if all results are finite in this mode, or if the step was given the NaN.
    """
    closed = jitted.raw.trace(*args, **kwargs).jaxpr
    given = jax.tree_util.tree_leaves((tuple(args), kwargs))
    weights = jitted.traced.layout.weights.values() if jitted.traced.layout is not None else ()
    search = Search(batch_of(tuple(weights), given)[0])
    evaluation = Evaluation(search, loops=True, keeps_derivatives=False)
    leaves = jax.tree_util.tree_leaves(dynamic(jitted, args, kwargs))
    try:
        results = evaluation.run(closed.jaxpr, closed.consts, leaves)
    except TooLong:
        return None
    chosen = [results[index] for index in targets if index < len(results)]
    found = [bad for bad in map(search.of, [*chosen, *results]) if bad is not None]
    if not found:
        return None
    bad = origin_of(found[0])
    if bad.given_nan and any(_is_float(leaf) and _has_nan(leaf) for leaf in leaves):
        return None
    return FirstBadOperation(
        step=step,
        operation=bad.operation,
        module=_module(bad.scope),
        inputs=bad.inputs,
        rows=bad.rows,
        derivative=bad.derivative,
        location=bad.location,
    )


def dynamic(jitted: Jitted, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Return the non-static arguments of a call, by position and name."""
    numbers = _several(jitted.options.get("static_argnums"))
    names = set(_several(jitted.options.get("static_argnames")))
    with suppress(TypeError, ValueError):  # a function without a signature
        positions = list(inspect.signature(jitted.fun).parameters)
        names |= {positions[number] for number in numbers if number < len(positions)}
        numbers = [*numbers, *(n for n, name in enumerate(positions) if name in names)]
    fixed = {number % len(args) for number in numbers if -len(args) <= number < len(args)}
    return (
        tuple(arg for number, arg in enumerate(args) if number not in fixed),
        {name: value for name, value in kwargs.items() if name not in names},
    )


def _several(option: Any) -> list[Any]:
    """Return an option of `jax.jit` that may be one value, several, or none."""
    if option is None:
        return []
    return list(option) if isinstance(option, list | tuple) else [option]


def nonfinite_inputs(layout: Layout, inputs: Any, *, step: int) -> list[NonfiniteInput]:
    """Return the arguments of a step, except weights, that are not finite."""
    weights = set(layout.weights.values())
    found = []
    for index, (path, leaf) in enumerate(jax.tree_util.tree_flatten_with_path(inputs)[0]):
        gone = isinstance(leaf, jax.Array) and leaf.is_deleted()
        if index in weights or gone or not _is_float(leaf) or _is_finite(leaf):
            continue
        if any(name in jax.tree_util.keystr(path) for name in MOMENTS):
            continue
        values = np.asarray(leaf, dtype=np.float64)
        rows = _rows(values)
        found.append(
            NonfiniteInput(
                step=step,
                tensor=name_of(path),
                source=layout.function,
                from_loader=False,
                nan=int(np.isnan(values).sum()),
                inf=int(np.isinf(values).sum()),
                rows=rows,
                row_count=len(rows),
                location=layout.location,
            )
        )
    return found


def _module(scope: str) -> str:
    parts = [part for part in scope.split("/") if part and "(" not in part]
    return ".".join(parts[1:])


def _is_float(value: Any) -> bool:
    dtype = getattr(value, "dtype", None)
    return dtype is not None and jax.numpy.issubdtype(dtype, jax.numpy.floating)


def _is_finite(value: Any) -> bool:
    return bool(np.isfinite(np.asarray(value, dtype=_wide(value))).all())


def _has_nan(value: Any) -> bool:
    return bool(np.isnan(np.asarray(value, dtype=_wide(value))).any())


def _wide(value: Any) -> Any:
    return np.float32 if value.dtype.itemsize < 4 else None


def _range(value: Any) -> str:
    numbers = np.asarray(value, dtype=np.float64)
    if not numbers.size:
        return "empty"
    finite = numbers[np.isfinite(numbers)]
    bad = numbers.size - finite.size
    words = f"from {finite.min():.4g} to {finite.max():.4g}" if finite.size else "none finite"
    return f"{words}, {bad} not finite" if bad else words


def _rows(value: np.ndarray[Any, Any]) -> tuple[int, ...]:
    """Return the first rows with non-finite values; empty if all rows have some."""
    if value.ndim < 1 or len(value) < 2:
        return ()
    bad_N = ~np.isfinite(value.reshape(len(value), -1).astype(np.float64)).all(axis=1)
    return () if bad_N.all() else tuple(np.flatnonzero(bad_N)[:MAX_ROWS].tolist())
