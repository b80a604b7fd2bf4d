"""Variables that running code assigns again before it reads them."""

from __future__ import annotations

import bisect
import dis
import functools
import inspect
from collections.abc import Iterator, Sequence
from types import CodeType
from typing import Any

READERS = frozenset(("dir", "eval", "exec", "globals", "locals", "vars"))
"""Functions that may read any variable."""
STORES = ("STORE_FAST", "STORE_NAME")
JUMPS_ALWAYS = ("JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT", "JUMP_FORWARD")
ENDS = ("RAISE_VARARGS", "RERAISE", "RETURN_CONST", "RETURN_VALUE")
MOST_INSTRUCTIONS = 20_000
"""Longer code is not examined, because this takes more than a tenth of a second. Chosen by hand."""


def dead_names(code: CodeType, at: int) -> frozenset[str]:
    """Return the variables that code assigns, or never reads, before it can read them again.

    Left out are variables that other functions may read, and names that are also names of
    attributes in this code.

    Args:
        code: code of a running frame.
        at: position of the call that it makes, `f_lasti`.
    """
    cell = code.co_filename.startswith("<") or "ipykernel" in code.co_filename
    if cell and not code.co_flags & inspect.CO_OPTIMIZED:
        return frozenset()  # the next cell of a notebook may read them
    flow = _flow_of(code)
    return flow.dead(at) if flow is not None else frozenset()


class _Flow:
    """Live variables before each instruction, as bits of a number.

    Args:
        code: the code.
        names: the variables that only this code can read.
    """

    def __init__(self, code: CodeType, names: Sequence[str]) -> None:
        self._names = names
        every = list(dis.get_instructions(code))
        self._offsets = [each.offset for each in every]
        entries = dis.Bytecode(code).exception_entries  # type: ignore[attr-defined]  # since 3.11
        self._handlers = [(entry.start, entry.end, entry.target) for entry in entries]
        bits = {name: 1 << number for number, name in enumerate(names)}
        stored = [bits.get(e.argval, 0) if e.opname in STORES else 0 for e in every]
        read = [0 if own else _read(e.argval, bits) for e, own in zip(every, stored, strict=True)]
        follow = [self._after(number, each) for number, each in enumerate(every)]
        self._live = [0] * len(every)
        changed = True
        while changed:
            changed = False
            for number in range(len(every) - 1, -1, -1):
                after = 0
                for place in follow[number]:
                    after |= self._live[place]
                live = read[number] | (after & ~stored[number])
                if live != self._live[number]:
                    self._live[number], changed = live, True

    def dead(self, at: int) -> frozenset[str]:
        """Return the variables that are dead after the instruction at a position."""
        places = [bisect.bisect_right(self._offsets, at), *self._caught(at)]
        live = 0
        for place in places:
            live |= self._live[place] if place < len(self._live) else 0
        return frozenset(name for n, name in enumerate(self._names) if not live >> n & 1)

    def _after(self, number: int, each: dis.Instruction) -> list[int]:
        """Return the instructions that may follow one."""
        found = self._caught(each.offset)
        if each.opcode in dis.hasjrel or each.opcode in dis.hasjabs:
            found.append(bisect.bisect_left(self._offsets, each.argval))
        if each.opname not in JUMPS_ALWAYS and each.opname not in ENDS:
            found.append(number + 1)
        return [place for place in found if place < len(self._offsets)]

    def _caught(self, offset: int) -> list[int]:
        """Return the exception handlers that cover a position."""
        handlers = [to for begin, end, to in self._handlers if begin <= offset < end]
        return [bisect.bisect_left(self._offsets, to) for to in handlers]


@functools.lru_cache(maxsize=128)
def _flow_of(code: CodeType) -> _Flow | None:
    # Equal code of two files is one key.
    if len(code.co_code) > 2 * MOST_INSTRUCTIONS or READERS & _names_in(code):
        return None
    if code.co_flags & inspect.CO_OPTIMIZED:
        names = [name for name in code.co_varnames if name not in code.co_cellvars]
    else:
        elsewhere: set[str] = set().union(*map(_names_in, _nested(code)))
        names = [name for name in code.co_names if name not in elsewhere]
    return _Flow(code, names)


def _read(argument: Any, bits: dict[str, int]) -> int:
    if isinstance(argument, str):
        return bits.get(argument, 0)
    names = argument if isinstance(argument, tuple) else ()
    return sum(bits.get(name, 0) for name in {one for one in names if isinstance(one, str)})


def _names_in(code: CodeType) -> set[str]:
    """Return the names of globals and attributes that code uses, with the functions in it."""
    return {*code.co_names, *code.co_freevars}.union(*map(_names_in, _nested(code)))


def _nested(code: CodeType) -> Iterator[CodeType]:
    return (one for one in code.co_consts if isinstance(one, CodeType))
