"""Compiled functions that report their calls; JAX's own executable does the work."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any, Protocol

from mothtrap.adapters.jax.functions import Traced

Function = Callable[..., Any]


class Calls(Protocol):
    """Receives the calls to compiled functions; raises if the guard ends a step."""

    def is_seen(self) -> bool:
        """Return whether the current call comes from the script, and not from another call."""

    def before(self, jitted: Jitted, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Process the start of a call; return the value to pass to `after`."""

    def after(self, jitted: Jitted, noted: Any, out: Any) -> Any:
        """Process the result of a call; return the result for the script."""


class Jitted:
    """Wraps the result of `jax.jit` or `jax.pmap`.

    Args:
        fun: the user's function.
        traced: the wrapped function inside the compiled one.
        make: `jax.jit` or `jax.pmap`.
        options: options of `make`.
        calls: receives the calls.

    Attributes:
        raw: the compiled function of JAX.
        is_mapped: it is a result of `jax.pmap`.
    """

    def __init__(
        self,
        fun: Function,
        traced: Traced,
        make: Function,
        options: dict[str, Any],
        calls: Calls,
        *,
        is_mapped: bool = False,
    ) -> None:
        self.raw = make(traced, **options)
        functools.update_wrapper(self, fun)
        self.fun, self.traced, self.options = fun, traced, options
        self.is_mapped, self._calls = is_mapped, calls

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the jitted function, and report the call if it is observed."""
        if not self._calls.is_seen():
            inlined = self.traced.is_inlined and not self.is_mapped
            return self.fun(*args, **kwargs) if inlined else self.raw(*args, **kwargs)
        noted = self._calls.before(self, args, kwargs)
        out = self.raw(*args, **kwargs)
        return self._calls.after(self, noted, out)

    def __get__(self, owner: Any, _: Any = None) -> Any:
        return self if owner is None else types.MethodType(self, owner)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)

    def __repr__(self) -> str:
        return repr(self.raw)

    def lower(self, *args: Any, **kwargs: Any) -> Any:
        """Lower the function for some arguments, as JAX does."""
        return self.raw.lower(*args, **kwargs)

    def trace(self, *args: Any, **kwargs: Any) -> Any:
        """Trace the function for some arguments, as JAX does."""
        return self.raw.trace(*args, **kwargs)

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """Return the shapes of the results, as JAX does."""
        return self.raw.eval_shape(*args, **kwargs)

    def clear_cache(self) -> None:
        """Clear the compilation cache, as JAX does."""
        self.raw.clear_cache()
