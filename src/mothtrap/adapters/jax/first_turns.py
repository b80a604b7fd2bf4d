"""Loops of steps: their first turn also runs outside of the loop, where a shadow observes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import jax

from mothtrap.adapters.jax.functions import Book


class SeenError(BaseException):
    """Ends the trace of a shadow whose observations are complete; no user's code catches it."""


@contextmanager
def first_turns(book: Book) -> Iterator[None]:
    """Run the first turn of each `scan`, `fori_loop`, and `while_loop` before the loop.

    Loops inside of a differentiated function belong to its model and are left as they are.

    Args:
        book: record of the thread.
    """
    lax = jax.lax
    originals = lax.scan, lax.fori_loop, lax.while_loop

    def ahead(turn: Callable[..., Any], *values: Any) -> None:
        if not book.differentiates:
            with suppress(Exception):  # the loop itself raises it, too
                turn(*jax.tree.map(_as_array, values))

    def scan(f: Any, init: Any, xs: Any = None, *more: Any, **options: Any) -> Any:
        index = -1 if options.get("reverse") else 0
        with suppress(Exception):
            ahead(f, init, jax.tree.map(lambda one: one[index], xs))
        return originals[0](f, init, xs, *more, **options)

    def fori_loop(lower: Any, upper: Any, body_fun: Any, init_val: Any, **options: Any) -> Any:
        ahead(body_fun, lower, init_val)
        return originals[1](lower, upper, body_fun, init_val, **options)

    def while_loop(cond_fun: Any, body_fun: Any, init_val: Any) -> Any:
        ahead(body_fun, init_val)
        return originals[2](cond_fun, body_fun, init_val)

    lax.scan, lax.fori_loop, lax.while_loop = scan, fori_loop, while_loop
    book.peels = True
    try:
        yield
    finally:
        book.peels = False
        lax.scan, lax.fori_loop, lax.while_loop = originals


def _as_array(leaf: Any) -> Any:
    return leaf if hasattr(leaf, "dtype") else jax.numpy.asarray(leaf)
