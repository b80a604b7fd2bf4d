"""Replaced functions of classes and modules, which can all be restored together.

A replaced function calls the original outside of every `try` block of mothtrap, passes on its
result or exception, and removes its own frame from the traceback.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from mothtrap.core.errors import nearest

Function = Callable[..., Any]
Contain = Callable[..., Any]


class Replacements:
    """Replaced functions of classes and modules; `undo` restores the originals.

    Args:
        contain: runs a hook so that its errors do not reach the training; by default, the hook is
            called directly.

    Attributes:
        contain: the function passed as `contain`.
    """

    def __init__(self, contain: Contain = lambda act, *args: act(*args)) -> None:
        self.contain = contain
        self._stack = ExitStack()

    def undo(self) -> None:
        """Restore all replaced functions."""
        self._stack.close()

    def on_undo(self, act: Callable[[], object]) -> None:
        """Call `act` during `undo`, in reverse order of registration."""
        self._stack.callback(act)

    def replace(self, owner: Any, name: str, make: Callable[[Function], Function]) -> None:
        """Replace a function with the result of `make(original)`.

        Raises:
            AttributeError: the class or module itself does not define the function.
        """
        if name not in owner.__dict__:
            raise AttributeError(_reason(owner, name))
        original = owner.__dict__[name]
        setattr(owner, name, functools.wraps(original)(make(original)))
        self._stack.callback(setattr, owner, name, original)

    def after_new(self, owner: Any, act: Function) -> None:
        """Call `act(made)` after an object of a class is created, before its `__init__`.

        `__init__` itself is not replaced, because Keras reads its arguments from its signature.
        """
        original, contain = owner.__dict__["__new__"], self.contain

        @functools.wraps(original.__func__)
        def new(cls: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                made = original.__func__(cls, *args, **kwargs)
            except BaseException as err:
                drop_own_frame(err)
                raise
            contain(act, made)
            return made

        owner.__new__ = staticmethod(new)
        self._stack.callback(setattr, owner, "__new__", original)

    def around(
        self, owner: Any, name: str, before: Function | None, after: Function | None
    ) -> None:
        """Call `before(self, args, kwargs)` and `after(self, result, args, kwargs, state)`.

        `args` does not contain `self`. Arguments that the script passes by name are in `kwargs`.

        Args:
            owner: the class; for a module, `self` is the first argument of the function.
            name: name of the method.
            before: its return value is the state for `after`.
            after: not called if the method raises an exception.
        """
        contain = self.contain

        def make(original: Function) -> Function:
            def call(self: Any, *args: Any, **kwargs: Any) -> Any:
                state = contain(before, self, args, kwargs) if before is not None else None
                try:
                    result = original(self, *args, **kwargs)
                except BaseException as err:
                    drop_own_frame(err)
                    raise
                if after is not None:
                    contain(after, self, result, args, kwargs, state)
                return result

            return call

        self.replace(owner, name, make)


def _reason(owner: Any, name: str) -> str:
    """Return why a function cannot be replaced."""
    shown = getattr(owner, "__qualname__", owner.__name__)
    base = next((b for b in getattr(owner, "__mro__", ()) if name in vars(b)), None)
    if base is not None:
        return f"{shown} inherits {name!r} from {base.__qualname__}; replace it there"
    return f"{shown} defines no {name!r} that could be replaced{nearest(name, vars(owner))}"


def drop_own_frame(err: BaseException) -> None:
    """Remove a replaced function from a traceback; a bare `raise` does not add it again."""
    if err.__traceback__ is not None and err.__traceback__.tb_next is not None:
        err.__traceback__ = err.__traceback__.tb_next
