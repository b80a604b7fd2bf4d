"""Run the first iteration of a loop also before the loop, where a shadow can observe it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import jax

from mothtrap.adapters.jax.functions import Book


class ObservedError(BaseException):
    """Ends the trace of a shadow once its observations are complete.

    It is no `Exception`, so that the user's code does not catch it.
    """


@contextmanager
def first_iterations(book: Book) -> Iterator[None]:
    """Run the first iteration of each `scan`, `fori_loop`, and `while_loop` before the loop.

    Loops inside a differentiated function belong to its model, and do not run in advance.

    Args:
        book: record of the thread.
    """
    lax = jax.lax
    originals = lax.scan, lax.fori_loop, lax.while_loop

    def ahead(iteration: Callable[..., Any], *values: Any) -> None:
        if not book.differentiates:
            with suppress(Exception):  # the loop itself raises it, too
                iteration(*jax.tree.map(_as_array, values))

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
