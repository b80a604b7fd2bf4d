"""Values from outside a function that its code reads: global names, closures, attributes."""

from __future__ import annotations

import dis
import functools
import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final

from mothtrap.tracing.source.frames import is_users_file

Chain = tuple[str, ...]
"""A name and attributes: `("np", "random", "normal")`, `("self", "beta")`."""

MOST_FUNCTIONS: Final = 32
"""Maximum number of functions that are read: the function, and those that it can call."""
CALLS: Final = ("call", "__call__")
"""Methods that run when an object is called."""
_LOADS: Final = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_FAST"})
_ATTRIBUTES: Final = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
_STORES: Final = frozenset({"STORE_GLOBAL", "STORE_NAME", "STORE_DEREF"})
_MISSING: Final = object()


@dataclass(frozen=True, slots=True)
class _Code:
    """Names that code reads.

    Attributes:
        chains: the names, with the attributes that are read from them.
        stored: names that it also assigns, and attributes of its first argument: `self.name`.
    """

    chains: tuple[Chain, ...]
    stored: frozenset[str]


def outside_values(
    function: Any, owner: object = None, objects: Sequence[object] = ()
) -> dict[Chain, Any]:
    """Return the values from outside that a user's function reads, by name.

    Args:
        function: the function; it may be a method, or wrapped.
        owner: the object whose attributes it reads through its first argument; None if unknown.
        objects: its arguments, whose methods it can call.

    Returns:
        The values that the function reads, and those that the user's functions read which it can
        call. A chain ends at the first value that is not a module.
    """
    found: dict[Chain, Any] = {}
    waiting, seen = [(function, owner)], set[CodeType]()
    while waiting and len(seen) < MOST_FUNCTIONS:
        one, known = waiting.pop(0)
        plain, bound = _plain(one)
        code = getattr(plain, "__code__", None)
        if not isinstance(plain, FunctionType) or code is None or code in seen:
            continue
        if not is_users_file(code.co_filename):
            continue
        seen.add(code)
        for chain, value in _read(plain, code, known if bound is None else bound):
            inner = [one for one in _called(value) if isinstance(_plain(one)[0], FunctionType)]
            waiting += [(one, None) for one in inner]
            if not inner:
                found[chain] = value
        waiting += [(one, None) for one in _methods(code, objects)]
    return found


def _methods(code: CodeType, objects: Sequence[object]) -> Iterator[Any]:
    """Yield the methods of some objects whose names the code reads."""
    for one in objects:
        for name in (*code.co_names, *CALLS):
            value = inspect.getattr_static(type(one), name, None)
            if isinstance(value, FunctionType) and is_users_file(value.__code__.co_filename):
                yield MethodType(value, one)


def _plain(function: Any) -> tuple[Any, object]:
    """Return the function behind methods and wrappers, and the object of the method."""
    owner = None
    while True:
        if isinstance(function, MethodType):
            function, owner = function.__func__, function.__self__
        elif callable(function) and "__wrapped__" in getattr(function, "__dict__", ()):
            function = function.__wrapped__
        else:
            return function, owner


def _called(value: Any) -> list[Any]:
    """Return the functions that run when a value is called; empty if it cannot be called."""
    if not callable(value) or isinstance(value, type):
        return []
    methods = (inspect.getattr_static(type(value), name, None) for name in CALLS)
    own = [MethodType(one, value) for one in methods if isinstance(one, FunctionType)]
    own = [one for one in own if is_users_file(one.__func__.__code__.co_filename)]
    return own or [value]


def _read(function: FunctionType, code: CodeType, owner: object) -> Iterator[tuple[Chain, Any]]:
    cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=False))
    read = _names_in(code)
    for chain in read.chains:
        if chain[0] in _first(code):
            if len(chain) < 2 or owner is None or f"self.{chain[1]}" in read.stored:
                continue
            chain, value = chain[:2], _attribute(owner, chain[1])
        elif chain[0] in read.stored:
            continue
        else:
            chain, value = _followed(chain, _value(function, cells, chain[0]))
        if value is not _MISSING:
            yield chain, value


def _value(function: FunctionType, cells: dict[str, Any], name: str) -> Any:
    if name in cells:
        try:
            return cells[name].cell_contents
        except ValueError:  # not yet assigned
            return _MISSING
    return function.__globals__.get(name, _MISSING)


def _followed(chain: Chain, value: Any) -> tuple[Chain, Any]:
    """Follow the attributes of modules, generators of random numbers, and objects with settings."""
    used = 1
    while used < len(chain) and isinstance(value, ModuleType):
        value = vars(value).get(chain[used], _MISSING)
        used += 1
    if used < len(chain) and isinstance(_attribute(value, chain[used]), bool | int | float):
        value = _attribute(value, chain[used])
        used += 1
    return chain[:used], value


def _attribute(owner: object, name: str) -> Any:
    """Return an attribute of an object without running any code of the user."""
    try:
        own = object.__getattribute__(owner, "__dict__")
    except AttributeError:
        return _MISSING
    if name in own:
        return own[name]
    value = inspect.getattr_static(type(owner), name, _MISSING)
    return MethodType(value, owner) if isinstance(value, FunctionType) else _MISSING


def _first(code: CodeType) -> Chain:
    """Return the name of the first argument of a method; () for a function."""
    return code.co_varnames[:1] if code.co_argcount and code.co_varnames[0] == "self" else ()


@functools.lru_cache(maxsize=256)
def _names_in(code: CodeType) -> _Code:
    first, chains, stored = _first(code), list[Chain](), set[str]()
    steps = list(dis.get_instructions(code))
    for index, one in enumerate(steps):
        name = str(one.argval)
        if one.opname in _STORES:
            stored.add(name)
        elif one.opname == "STORE_ATTR" and index and str(steps[index - 1].argval) in first:
            stored.add(f"self.{name}")
        # an inner function shares its variable, so this code reads it as that of a closure
        is_own = one.opname == "LOAD_FAST" or name in code.co_cellvars
        if one.opname in _LOADS and (not is_own or name in first):
            chains.append((name, *_attributes(steps[index + 1 :])))
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            own = {*code.co_varnames, *code.co_cellvars} - set(first)
            read = _names_in(inner)
            chains += [chain for chain in read.chains if chain[0] not in own]
            stored |= read.stored
    return _Code(tuple(dict.fromkeys(chains)), frozenset(stored))


def _attributes(steps: list[dis.Instruction]) -> Iterator[str]:
    for one in steps:
        if one.opname not in _ATTRIBUTES:
            return
        yield str(one.argval)
