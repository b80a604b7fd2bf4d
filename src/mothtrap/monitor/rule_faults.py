"""Descriptions of faults of custom rules in one sentence, with the change to make."""

from __future__ import annotations

import dis
import re
import traceback
from dataclasses import FrozenInstanceError
from inspect import signature
from pathlib import PurePath
from typing import get_type_hints

import msgspec

from mothtrap.core.error_texts import MAX_LINE, first_line
from mothtrap.core.errors import ConfigError, nearest
from mothtrap.core.findings import RuleState
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.rule_form import RESERVED
from mothtrap.core.runs import RuleStatus

_NONE = "window.matrix(...) is None where nothing was captured: raise mothtrap.NotEnoughData then"
_EMPTY = (
    "window.scalars(...) is empty where nothing was recorded: raise mothtrap.NotEnoughData then"
)
_READ_ONLY = "a window cannot be changed: work on a copy, `values = series.values_S.copy()`"
_STATELESS = "rules have no state: compute everything from the window in each call"
_ADVICE: tuple[tuple[type[BaseException], str, str], ...] = (
    (AttributeError, r"'NoneType' object", _NONE),
    (TypeError, r"'NoneType' object", _NONE),
    (IndexError, r"out of (range|bounds)", _EMPTY),
    (ValueError, r"read-only|WRITEABLE", _READ_ONLY),
    (ValueError, r"not enough values to unpack", _EMPTY),
    (FrozenInstanceError, r"", _STATELESS),
    (RecursionError, r"", "it calls itself endlessly"),
    (SystemExit, r"", "a rule must not end the process: remove the call to exit"),
    (TypeError, r"Found.*positional", "write mothtrap.Found(step=..., message=...)"),
    (TypeError, r"positional arguments provided", "write mothtrap.Need(scalars=('loss',))"),
    (ImportError, r"", "install that module where the training runs, or remove the import"),
)
"""Advice by type of exception and pattern of its text."""


class LeftOut(msgspec.Struct, frozen=True, kw_only=True):
    """A rule that cannot be used, or a part of its file.

    Attributes:
        where: `file:line`.
        code: code of the rule; empty if unknown.
        name: name of the function or class; empty if the fault is not in a rule.
        reason: the fault, and the correction.
    """

    where: str
    reason: str
    code: str = ""
    name: str = ""

    @property
    def status(self) -> RuleStatus:
        """State of the rule in a run, with its location if the code is unknown."""
        return RuleStatus(
            code=self.code or PurePath(self.where).name,
            name=self.name or "rules",
            state=RuleState.RULE_FAILED,
            reason=f"{self.where}: {self.reason}",
        )

    def __str__(self) -> str:
        """Return one sentence with the rule, its place, and the change to make."""
        rule = " ".join(filter(None, ("rule", self.code, self.name))) if self.name else "file"
        return f"{rule} of {self.where} is left out: {self.reason}; the other rules continue"


def one_line(error: BaseException) -> str:
    """Return the type and text of an exception, even if its `__str__` raises."""
    try:
        text = first_line(str(error))
    except Exception:
        text = ""
    kind = type(error).__name__
    line = f"{kind}: {text}" if text else kind
    return line if len(line) <= MAX_LINE else f"{line[: MAX_LINE - 1]}…"


def line_in(error: BaseException, file: str) -> int | None:
    """Return the innermost line of a file in an exception's traceback, if any."""
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == file
    ]
    return lines[-1] if lines else None


def advice(error: BaseException) -> str:
    """Return advice that fits an exception, after a semicolon; '' without advice."""
    if isinstance(error, ConfigError):
        return ""
    text = one_line(error)
    for kind, pattern, said in _ADVICE:
        if isinstance(error, kind) and re.search(pattern, text):
            return f"; {said}"
    unknown = re.search(r"[uU]nexpected keyword argument '(\w+)'", text)
    return f"; {_of_argument(unknown[1], text)}" if unknown is not None else ""


def raised_on_purpose(error: BaseException) -> bool:
    """Return whether an exception came from `raise`, not from a signal such as Ctrl-C."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return False
    return trace.tb_frame.f_code.co_code[trace.tb_lasti] == dis.opmap["RAISE_VARARGS"]


def _of_argument(name: str, text: str) -> str:
    """List the valid arguments if one is unknown; `text` is the text of the exception."""
    if "rule()" in text:
        if name in RESERVED:
            return RESERVED[name]
        called = "rule"
        known: tuple[str, ...] = ("severity", "needs", "explains", "passes")
    elif "Found" in text:
        called, known = "Found", tuple(get_type_hints(Found))
    elif "finding()" in text:
        called, known = "finding", tuple(signature(Rule.finding).parameters)[2:]
    else:
        called, known = "Need", Need.__struct_fields__
    return f"the arguments of {called} are {', '.join(known)}{nearest(name, known)}"
