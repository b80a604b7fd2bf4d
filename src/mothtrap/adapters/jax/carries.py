"""Weights and states that a traced function passes to its next call, or loses by mistake."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

import jax
import numpy as np

STATES: Final = ("mu", "nu", "trace", "count", "batch_stats")
"""Path components of states that optimizers and batch normalization keep between steps."""

STATISTICS: Final = "batch_stats"
"""The collection in which flax keeps the running averages of batch normalization."""


def like_weights(
    inputs: Sequence[tuple[Any, Any]], names: Sequence[str], arguments: Sequence[Any]
) -> list[int]:
    """Return the inputs from which some arrays were derived, such as weights before a cast.

    Args:
        inputs: paths and leaves of the arguments of a function.
        names: names of the arrays, as path endings.
        arguments: arrays with respect to which the function differentiates.

    Returns:
        Indices of the first consecutive inputs with these shapes and names; empty if there are
        none.
    """
    ends = [name.rpartition(".")[2] for name in names]
    shapes = [np.shape(one) for one in arguments]
    for first in range(len(inputs) - len(shapes) + 1):
        run = inputs[first : first + len(shapes)]
        if [np.shape(leaf) for _, leaf in run] == shapes and all(
            end in jax.tree_util.keystr(path) for (path, _), end in zip(run, ends, strict=True)
        ):
            return list(range(first, first + len(shapes)))
    return []


def returned_states(
    inputs: Sequence[tuple[Any, Any]], results: Sequence[tuple[Any, Any]]
) -> frozenset[int]:
    """Return the results that are new states of arguments, such as the metrics of `flax.nnx`.

    `nnx.jit` returns all arguments before the results of the function, at the same paths.

    Args:
        inputs: paths and leaves of the arguments of a function.
        results: paths and leaves of its results.
    """
    given = _by_argument(inputs)
    return frozenset(
        index
        for argument, places in _by_argument(results).items()
        if len(places) > 1 and _kinds(results, places) == _kinds(inputs, given.get(argument, []))
        for index in places
    )


def _by_argument(leaves: Sequence[tuple[Any, Any]]) -> dict[Any, list[int]]:
    """Return the indices of leaves by the first two parts of their paths."""
    found: dict[Any, list[int]] = {}
    for index, (path, _) in enumerate(leaves):
        found.setdefault(path[:2], []).append(index)
    return found


def _kinds(leaves: Sequence[tuple[Any, Any]], places: Sequence[int]) -> list[Any]:
    some = [leaves[place] for place in places]
    return [(path, np.shape(leaf), getattr(leaf, "dtype", None)) for path, leaf in some]


def lost_updates(
    before: Sequence[Any],
    after: Sequence[Any],
    weights: Sequence[int],
    results: Sequence[Any],
    updated: Sequence[int],
) -> str:
    """Return why the updates of a newly traced function reach no other call.

    Args:
        before: leaves of its arguments before the trace.
        after: those leaves after it.
        weights: indices of the weights among `before`.
        results: leaves of its results.
        updated: indices of the new weights among `results`.

    Returns:
        `unchanged` if the new weights equal the old ones, `in place` if the function changed its
        arguments, which is not visible outside; otherwise empty.
    """
    if not weights:
        return ""
    if updated:
        same = all(results[to] is before[of] for to, of in zip(updated, weights, strict=True))
        return "unchanged" if same else ""
    kept = {id(leaf) for leaf in (*after, *results)}
    return "" if any(id(before[of]) in kept for of in weights) else "in place"


def states(
    fun: Callable[..., Any], arguments: Any, out: Any, taken: Collection[int], made: Collection[int]
) -> dict[str, tuple[int, ...]]:
    """Return the states that a function takes and returns updated, by argument.

    Args:
        fun: the function.
        arguments: arguments by position and by name.
        out: results of the function.
        taken: indices of the weights among the leaves of the arguments.
        made: indices of the new weights among the leaves of the results.

    Returns:
        Indices of leaves of the arguments.
    """
    if not isinstance(out, tuple):
        return {}
    returned, first = [], 0
    for part in out:
        leaves = jax.tree_util.tree_leaves(part)
        if not any(first <= index < first + len(leaves) for index in made):
            returned.append((jax.tree_util.tree_structure(part), {id(leaf) for leaf in leaves}))
        first += len(leaves)
    found, first = {}, 0
    for name, part in _named(fun, arguments):
        leaves = jax.tree_util.tree_leaves(part)
        places = tuple(range(first, first + len(leaves)))
        first += len(leaves)
        structure = jax.tree_util.tree_structure(part)
        anew = [ids for of, ids in returned if of == structure]
        if (
            _is_state(part)
            and len(anew) == 1
            and anew[0].isdisjoint(map(id, leaves))
            and not set(places) & set(taken)
        ):
            found[name] = places
    return found


def lost_statistics(
    inputs: Sequence[tuple[Any, Any]], computed: Any, results: Sequence[tuple[Any, Any]]
) -> str:
    """Return the name of the batch statistics that a function computes and does not return.

    Args:
        inputs: paths and leaves of its arguments.
        computed: values that its loss function returns in addition to the loss.
        results: paths and leaves of its results.

    Returns:
        Empty if it computes none, or returns them.
    """
    given = {id(leaf) for _, leaf in inputs}
    made = [tuple(map(_word, path)) for path, leaf in results if id(leaf) not in given]
    kept = {id(leaf) for _, leaf in results}
    lost = False
    for path, leaf in jax.tree_util.tree_flatten_with_path(computed)[0]:
        words = tuple(map(_word, path))
        end = words[words.index(STATISTICS) + 1 :] if STATISTICS in words else words
        of = [
            tuple(map(_word, its))
            for its, one in inputs
            if one is not leaf and np.shape(one) == np.shape(leaf)
        ]
        of = [its for its in of if end and its[-len(end) :] == end]
        if not any(STATISTICS in one for one in (words, *of)) or not of:
            continue
        if id(leaf) in kept or any(one[-len(end) :] == end for one in made):
            return ""
        lost = True
    return STATISTICS if lost else ""


def _named(fun: Callable[..., Any], arguments: Any) -> list[tuple[str, Any]]:
    """Return arguments by name, in the order of their leaves."""
    args, kwargs = arguments
    try:
        names = list(inspect.signature(fun).parameters)
    except (TypeError, ValueError):
        names = []
    names += [f"argument {n}" for n in range(len(names), len(args))]
    return [*zip(names, args, strict=False), *sorted(kwargs.items())]


def _is_state(tree: Any) -> bool:
    paths = (path for path, _ in jax.tree_util.tree_flatten_with_path(tree)[0])
    return any(_word(part) in STATES for path in paths for part in path)


def _word(part: Any) -> str:
    return str(getattr(part, "name", getattr(part, "key", "")))
