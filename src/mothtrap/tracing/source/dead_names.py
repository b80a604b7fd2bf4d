"""Variables that running code assigns again before it reads them."""

from __future__ import annotations

import dis
import functools
import inspect
from collections.abc import Iterator
from types import CodeType

READERS = frozenset(("dir", "eval", "exec", "globals", "locals", "vars"))
"""Functions that may read any variable."""
STORES = ("STORE_FAST", "STORE_NAME")
JUMPS_ALWAYS = ("JUMP_ABSOLUTE", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT", "JUMP_FORWARD")
ENDS = ("RAISE_VARARGS", "RERAISE", "RETURN_CONST", "RETURN_VALUE")


def is_dead(code: CodeType, at: int, name: str) -> bool:
    """Return whether code assigns a variable, or ends, before it can read the variable again.

    If this is not certain, the result is False: for variables that other functions may read, and
    for names that are also names of attributes.

    Args:
        code: code of a running frame.
        at: position of the call that it makes, `f_lasti`.
        name: name of one of its variables.
    """
    cell = code.co_filename.startswith("<") or "ipykernel" in code.co_filename
    if cell and not code.co_flags & inspect.CO_OPTIMIZED:
        return False  # the next cell of a notebook may read it
    return _is_dead(code, at, name)


@functools.lru_cache(maxsize=4096)
def _is_dead(code: CodeType, at: int, name: str) -> bool:
    # Equal code of two files is one key.
    if not _is_own(code, name) or READERS & _names_in(code):
        return False
    instructions = list(dis.get_instructions(code))
    place = {each.offset: number for number, each in enumerate(instructions)}
    entries = dis.Bytecode(code).exception_entries  # type: ignore[attr-defined]  # since 3.11
    handlers = [(entry.start, entry.end, entry.target) for entry in entries]
    waiting = [n for n, each in enumerate(instructions) if each.offset > at][:1]
    waiting += [place[target] for begin, end, target in handlers if begin <= at < end]
    seen: set[int] = set()
    while waiting:
        number = waiting.pop()
        if number in seen or number >= len(instructions):
            continue
        seen.add(number)
        each = instructions[number]
        if each.opname in STORES and each.argval == name:
            continue
        if each.argval == name or (isinstance(each.argval, tuple) and name in each.argval):
            return False
        if each.opcode in dis.hasjrel or each.opcode in dis.hasjabs:
            waiting.append(place[each.argval])
        if each.opname not in (*JUMPS_ALWAYS, *ENDS):
            waiting.append(number + 1)
        waiting += [place[to] for begin, end, to in handlers if begin <= each.offset < end]
    return True


def _is_own(code: CodeType, name: str) -> bool:
    """Return whether only this code can read a variable."""
    if code.co_flags & inspect.CO_OPTIMIZED:
        return name in code.co_varnames and name not in code.co_cellvars
    return name in code.co_names and not any(name in _names_in(one) for one in _nested(code))


def _nested(code: CodeType) -> Iterator[CodeType]:
    return (one for one in code.co_consts if isinstance(one, CodeType))


def _names_in(code: CodeType) -> set[str]:
    """Return the names of globals and attributes that code uses, with the functions in it."""
    return {*code.co_names, *code.co_freevars}.union(*map(_names_in, _nested(code)))
