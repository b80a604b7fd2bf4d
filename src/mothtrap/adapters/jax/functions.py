"""Structure of the user's functions, found during tracing: gradients, loss, and weights."""

from __future__ import annotations

import inspect
import re
import threading
import weakref
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import jax
import numpy as np

from mothtrap.adapters.jax import carries, internals
from mothtrap.tracing.source.frames import line_of

Function = Callable[..., Any]
Path = tuple[Any, ...]
MOMENTS = ("mu", "nu", "trace", "ema", "acc_grads", "inner_state", "opt_state")
"""Names under which optimizers store trees with the structure of the weights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Differentiated:
    """A call to `value_and_grad` or `grad`.

    Attributes:
        value: the loss.
        arguments: leaves with respect to which it was differentiated.
        gradients: one for each of them.
        names: names of the arguments, e.g. `Dense_0.kernel`.
        function: name of the loss function.
        location: its last line, where the loss is returned.
        auxiliary: values that the function returns in addition to the loss.
    """

    value: Any
    arguments: Sequence[Any]
    gradients: Sequence[Any]
    names: tuple[str, ...]
    function: str
    location: str | None
    auxiliary: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Positions of values among the leaves of a function's arguments and results.

    Attributes:
        function: name of the function.
        location: line of the loss, otherwise of the function.
        size: number of leaves of the results.
        loss: index of the loss among them; None if it is not returned.
        weights: indices of the weights among the leaves of the arguments, by name.
        updated: indices of the new weights among the results, in the same order; empty if none are
            returned.
        gradients: indices of gradients among the results; empty if there are none.
        scalars: indices of real scalars among the results, by name.
        rate: index of a learning rate in the state of the optimizer.
        repeats: gradients are computed in a loop inside the function, so a call makes many steps.
        accumulates: several gradients are computed, which may be added up.
        totals: indices of the sum and the count of the losses so far among the results.
        runs_on: scalars are means of all calls so far.
        lost: why no update reaches another call, see `carries.lost_updates`.
        lost_state: name of a state that is computed and not returned.
        states: indices of leaves of the arguments that are returned anew, by argument.
        place: the first line of the function.
        data: indices of arrays among the leaves of the arguments that no other call returns: a
            batch.
        forwarded: index of each argument that is returned unchanged, by the index of the result.
    """

    function: str
    location: str | None
    size: int
    loss: int | None = None
    weights: dict[str, int] = field(default_factory=dict)
    updated: tuple[int, ...] = ()
    gradients: tuple[int, ...] = ()
    scalars: dict[str, int] = field(default_factory=dict)
    rate: int | None = None
    repeats: bool = False
    accumulates: bool = False
    totals: tuple[int, int] | None = None
    runs_on: bool = False
    lost: str = ""
    lost_state: str = ""
    states: dict[str, tuple[int, ...]] = field(default_factory=dict)
    place: str | None = None
    data: tuple[int, ...] = ()
    forwarded: dict[int, int] = field(default_factory=dict)

    @property
    def makes_steps(self) -> bool:
        """Return whether a call to the function updates weights."""
        return bool(self.updated) or self.repeats or bool(self.lost)


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Properties of a function that only a library knows, such as those of a model method.

    Attributes:
        names: names of the weights, in order.
        totals: returns the sum and the count of the losses so far among results; None if they are
            missing.
    """

    names: tuple[str, ...]
    totals: Callable[[Any], tuple[Any, Any] | None]


OWNERS: Final[list[Callable[[Any], Owner | None]]] = []
"""Functions that describe the object whose method is compiled; see `adapters.keras.on_jax`."""


def owner_of(fun: Function) -> Owner | None:
    """Return the known facts about the object that a method belongs to."""
    bound = getattr(fun, "__self__", None)
    if bound is None:
        return None
    return next((found for ask in OWNERS if (found := ask(bound)) is not None), None)


def series_of(layout: Layout) -> str:
    """Return the label of the losses that a function returns."""
    return layout.location or layout.function


class Page:
    """Notes made while a function is traced.

    Args:
        trace: trace to which its arguments belong.
        inputs: paths and leaves of the arguments, before the function could change any.
    """

    def __init__(self, trace: object | None, inputs: Sequence[tuple[Path, Any]]) -> None:
        self.trace, self.inputs = trace, inputs
        self.differentiated: list[Differentiated] = []
        self.in_loops: list[Differentiated] = []

    def add(self, call: Differentiated) -> None:
        """Add a call that computes gradients; in an inner loop, only its names and shapes count."""
        if internals.trace_of(call.gradients[0]) is self.trace:
            self.differentiated.append(call)
        else:
            self.in_loops.append(call)


class Book(threading.local):
    """The notes for the functions that a thread is tracing, innermost last.

    Attributes:
        marks: gradients get a mark, see `accumulation`.
        differentiates: JAX is tracing a differentiated function whose operations are collected.
        peels: the first iterations of loops are being observed.
    """

    def __init__(self) -> None:
        self.pages: list[Page] = []
        self.collector: Any = None
        self.logs = self.marks = self.differentiates = self.peels = False


class Traced:
    """Wraps a user's function inside a jit: calls it and records its structure.

    The jaxpr belongs to the function itself.

    Args:
        fun: the function, weakly referenced, as in JAX.
        book: record of the thread.
        seen: called after each trace, with the arguments; must not raise an exception.
        begins: called before each outermost trace, with the arguments; must not raise, either.

    Attributes:
        layout: layout of the latest trace.
        reading: compares the values that the latest trace has read; None if there are none.
        logs: it calls `mothtrap.log` or `log_tensor`.
    """

    def __init__(
        self,
        fun: Function,
        book: Book,
        seen: Callable[[Traced, Any], None],
        begins: Callable[[Traced, Function, Any], None],
    ) -> None:
        self._fun, self._book = weakref.ref(fun), book
        self._seen, self._begins = seen, begins
        self.layout: Layout | None = None
        self.reading: Any = None
        self.logs = False
        for name in ("__name__", "__qualname__", "__module__", "__doc__"):
            if hasattr(fun, name):
                setattr(self, name, getattr(fun, name))
        with suppress(TypeError, ValueError):
            self.__signature__ = inspect.signature(fun)

    @property
    def is_inlined(self) -> bool:
        """Return whether calls bypass `jax.jit`, so that the operations inside are observed."""
        return self._book.peels and not self._book.differentiates

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function; a page of the book is open while it is traced."""
        fun = self._fun()
        if fun is None:
            raise ReferenceError("the jitted function no longer exists")
        inputs = jax.tree_util.tree_flatten_with_path((args, kwargs))[0]
        traces = (internals.trace_of(leaf) for _, leaf in inputs)
        page = Page(next((trace for trace in traces if trace is not None), None), inputs)
        pages = self._book.pages
        if not pages:
            self._book.logs = False
            self._begins(self, fun, args)
        pages.append(page)
        try:
            out = fun(*args, **kwargs)
        finally:
            pages.pop()
        if pages:
            pages[-1].in_loops += (*page.in_loops, *page.differentiated)
        self.logs |= self._book.logs
        self._seen(self, (fun, page, (args, kwargs), out))
        return out


def layout_of(fun: Function, page: Page, arguments: Any, out: Any) -> Layout:
    """Return the layout of a newly traced function."""
    code = getattr(fun, "__code__", None)
    place = line_of(code.co_filename, code.co_firstlineno) if code is not None else None
    results = jax.tree_util.tree_flatten_with_path(out)[0]
    owner = owner_of(fun)
    totals = owner.totals(out) if owner is not None else None
    by_id = {id(leaf): index for index, (_, leaf) in enumerate(results)}
    every = _scalars(fun, results, ())
    carried = _carried(arguments, out) | carries.returned_states(page.inputs, results)
    scalars = _scalars(fun, results, carried) if carried else every
    common: dict[str, Any] = {
        "function": getattr(fun, "__name__", type(fun).__name__),
        "size": len(results),
        "scalars": scalars,
        "rate": next((i for n, i in every.items() if n.endswith("learning_rate")), None),
        "repeats": bool(page.in_loops) and not page.differentiated,
        "accumulates": bool(page.in_loops) or len(page.differentiated) > 1,
        "runs_on": owner is not None,
        "place": place,
        "forwarded": _forwarded(page.inputs, results),
    }
    if totals is not None and all(id(leaf) in by_id for leaf in totals):
        common["totals"] = (by_id[id(totals[0])], by_id[id(totals[1])])
    if not page.differentiated:
        return _layout_of_loop(fun, page, arguments, out, common)
    call = max(page.differentiated, key=lambda one: sum(np.size(g) for g in one.gradients))
    weights = _weights(page.inputs, call)
    returned = tuple(by_id[id(g)] for g in call.gradients if id(g) in by_id)
    gradients = returned if len(returned) == len(call.gradients) else ()
    updated: tuple[int, ...] = ()
    lost = ""
    taken = list(weights.values())
    if not gradients and len(weights) == len(call.arguments):
        updated = _updated(page.inputs, taken, results)
        before, after = [leaf for _, leaf in page.inputs], jax.tree_util.tree_leaves(arguments)
        lost = carries.lost_updates(before, after, taken, [leaf for _, leaf in results], updated)
    return Layout(
        **common,
        location=call.location or place,
        loss=by_id.get(id(call.value), _called_loss(scalars)),
        weights=weights,
        updated=updated,
        gradients=gradients,
        lost=lost,
        lost_state=carries.lost_statistics(page.inputs, call.auxiliary, results) if updated else "",
        data=_data(arguments, out, taken),
        states=carries.states(fun, arguments, out, taken, updated) if updated else {},
    )


def _layout_of_loop(fun: Function, page: Page, arguments: Any, out: Any, common: Any) -> Layout:
    """Return the layout of a function that computes gradients only in a loop, or not at all."""
    place = common["place"]
    if not page.in_loops:
        return Layout(**common, location=place)
    call = max(page.in_loops, key=lambda one: sum(np.size(g) for g in one.gradients))
    places = carries.like_weights(page.inputs, call.names, call.arguments)
    weights = dict(zip(call.names, places, strict=False))
    results = jax.tree_util.tree_flatten_with_path(out)[0]
    updated = _updated(page.inputs, places, results) if places else ()
    return Layout(
        **common,
        location=place,
        loss=_loop_losses(arguments, out),
        weights=weights,
        updated=updated,
        states=carries.states(fun, arguments, out, places, updated) if updated else {},
    )


def _weights(inputs: Sequence[tuple[Path, Any]], call: Differentiated) -> dict[str, int]:
    """Return the inputs with respect to which a function differentiates, directly or derived."""
    places = {id(leaf): index for index, (_, leaf) in enumerate(inputs)}
    found = {
        name: places[id(leaf)]
        for name, leaf in zip(call.names, call.arguments, strict=True)
        if id(leaf) in places
    }
    if found:
        return found
    like = carries.like_weights(inputs, call.names, call.arguments)
    return dict(zip(call.names, like, strict=False))


def _loop_losses(arguments: Any, out: Any) -> int | None:
    """Return the result with one loss per step of a loop, which is not part of the carry."""
    carried = _carried(arguments, out)
    args, kwargs = arguments
    given = [array_kind(one) for one in (*args, *kwargs.values()) if getattr(one, "ndim", 0) == 1]
    results = jax.tree_util.tree_flatten_with_path(out)[0]
    return _called_loss(
        {
            name_of(path) or "result": index
            for index, (path, leaf) in enumerate(results)
            if index not in carried
            and is_real(leaf)
            and np.ndim(leaf) <= 1
            and array_kind(leaf) not in given  # such as a vector of weights
        }
    )


def _carried(arguments: Any, out: Any) -> frozenset[int]:
    """Return the results that are passed from call to call, in the structure of an argument."""
    args, kwargs = arguments
    given = [kind_of(one) for one in (*args, *kwargs.values())]
    if not isinstance(out, tuple):
        return frozenset()
    found, first = set[int](), 0
    for part in out:
        size = len(jax.tree_util.tree_leaves(part))
        if size > 1 and kind_of(part) in given:
            found |= set(range(first, first + size))
        first += size
    return frozenset(found)


def _forwarded(
    inputs: Sequence[tuple[Path, Any]], results: Sequence[tuple[Path, Any]]
) -> dict[int, int]:
    given = {id(leaf): place for place, (_, leaf) in enumerate(inputs)}
    return {n: given[id(leaf)] for n, (_, leaf) in enumerate(results) if id(leaf) in given}


def _data(arguments: Any, out: Any, weights: Collection[int]) -> tuple[int, ...]:
    """Return the leaves of arguments without weights, of a kind that no result has.

    Moments of an optimizer have the shapes of weights.
    """
    args, kwargs = arguments
    parts = [out, *(out if isinstance(out, tuple | list) else ())]
    returned = [kind_of(part) for part in parts]
    found, first = list[int](), 0
    for part in (*args, *(kwargs[name] for name in sorted(kwargs))):
        leaves = jax.tree_util.tree_leaves(part)
        places = range(first, first + len(leaves))
        first += len(leaves)
        if kind_of(part) not in returned and not set(places) & set(weights):
            found += [place for place, leaf in zip(places, leaves, strict=True) if np.ndim(leaf)]
    shapes = [np.shape(leaf) for leaf in jax.tree_util.tree_leaves(arguments)]
    of_weights = {shapes[place] for place in weights}
    return tuple([n for n in found if shapes[n] not in of_weights] or found)


def _scalars(
    fun: Function, results: Sequence[tuple[Path, Any]], carried: Collection[int]
) -> dict[str, int]:
    """Return the real scalars among results by name, without a common prefix."""
    own = [
        (path, index)
        for index, (path, leaf) in enumerate(results)
        if index not in carried and is_real(leaf) and np.ndim(leaf) == 0
    ]
    shared = len({str(path[:1]) for path, _ in own}) == 1 and all(path[1:] for path, _ in own)
    return {
        name_of(path[1:] if shared else path) or getattr(fun, "__name__", "value"): index
        for path, index in own
    }


def kind_of(tree: Any) -> tuple[Any, list[Any]]:
    """Return the structure of a tree, with the shapes and types of its leaves."""
    leaves, structure = jax.tree_util.tree_flatten(tree)
    return structure, [array_kind(leaf) for leaf in leaves]


def _called_loss(scalars: dict[str, int]) -> int | None:
    """Return the result that is the loss, by its name, or because it is the only scalar."""
    named = [index for name, index in scalars.items() if "loss" in name.lower()]
    if len(named) == 1:
        return named[0]
    return next(iter(scalars.values())) if len(scalars) == 1 else None


def _updated(
    inputs: Sequence[tuple[Path, Any]], weights: Sequence[int], results: Sequence[tuple[Path, Any]]
) -> tuple[int, ...]:
    """Return the results that are new weights, structured like the old ones under any prefix."""
    paths = [tuple(map(str, inputs[index][0])) for index in weights]
    shared = _shared(paths)
    found = {tuple(map(str, path)): index for index, (path, _) in enumerate(results)}
    kinds = [array_kind(inputs[index][1]) for index in weights]
    best: tuple[tuple[int, int, int], tuple[int, ...]] | None = None
    prefixes = {path[: len(path) - (len(paths[0]) - shared)] for path in found}
    for prefix in prefixes:
        places = [found.get((*prefix, *path[shared:])) for path in paths]
        if any(place is None for place in places):
            continue
        known = [place for place in places if place is not None]
        if [array_kind(results[place][1]) for place in known] != kinds:
            continue
        moments = sum(any(name in part for name in MOMENTS) for part in prefix)
        alike = _shared_end(prefix, paths[0][:shared])
        key = (-moments, alike, -min(known))
        if best is None or key > best[0]:
            best = (key, tuple(known))
    return best[1] if best is not None else _run_of(kinds, results)


def _run_of(kinds: Sequence[Any], results: Sequence[tuple[Path, Any]]) -> tuple[int, ...]:
    """Return the first consecutive results with values of some kinds, in order."""
    found = [array_kind(leaf) for _, leaf in results]
    for first in range(len(found) - len(kinds) + 1):
        if found[first : first + len(kinds)] == list(kinds):
            return tuple(range(first, first + len(kinds)))
    return ()


def _shared(paths: Sequence[tuple[str, ...]]) -> int:
    """Return how many leading parts paths share; for a single path, all but its last part."""
    if len(paths) == 1:
        return max(0, len(paths[0]) - 1)
    shared = 0
    for parts in zip(*paths, strict=False):
        if len(set(parts)) > 1:
            break
        shared += 1
    return shared


def _shared_end(one: Sequence[str], other: Sequence[str]) -> int:
    shared = 0
    for a, b in zip(reversed(one), reversed(other), strict=False):
        if a != b:
            break
        shared += 1
    return shared


def array_kind(leaf: Any) -> tuple[Any, ...]:
    """Return shape and type of a leaf."""
    # is returned as an array, such as a step number
    if isinstance(leaf, bool | int | float | complex):
        return ((), jax.dtypes.canonicalize_dtype(type(leaf)))
    return (np.shape(leaf), getattr(leaf, "dtype", type(leaf)))


def is_real(leaf: Any) -> bool:
    """Return whether a leaf is an array of floating-point numbers."""
    dtype = getattr(leaf, "dtype", None)
    return dtype is not None and jax.numpy.issubdtype(dtype, jax.numpy.floating)


def name_of(path: Path) -> str:
    """Return a path into a tree as users write it: `Dense_0.kernel`."""
    words = re.findall(r"[\w ]+", jax.tree_util.keystr(path))
    return ".".join(word for word in words if word != "value")


def names_of(trees: Sequence[Any], labels: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the leaves of some arguments, without their common prefix.

    Args:
        trees: the arguments.
        labels: their names, used if an argument is a single array, or there are several arguments.
    """
    names = []
    for tree, label in zip(trees, labels, strict=True):
        own = [name_of(path) for path, _ in jax.tree_util.tree_flatten_with_path(tree)[0]]
        while own and all("." in name for name in own):
            if len({name.partition(".")[0] for name in own}) > 1 or len(own) == 1:
                break
            own = [name.partition(".")[2] for name in own]
        prefix = f"{label}." if len(trees) > 1 else ""
        names += [prefix + name if name else label for name in own]
    return tuple(names)
