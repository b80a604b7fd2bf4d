"""Repairs by the name of their rule."""

from __future__ import annotations

import ast
import difflib
import importlib
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import PurePath
from typing import Any

from mothtrap.core.errors import MissingExtraError
from mothtrap.core.findings import Finding

CONTEXT_LINES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """A repair of a file.

    Attributes:
        finding: the finding.
        file: path of the file, as named in the run.
        text: text of the repaired file.
        diff: unified diff, for `patch -p1` or `git apply`.
    """

    finding: Finding
    file: str
    text: str
    diff: str


def is_known(finding: Finding) -> bool:
    """Return whether a repair exists for findings of this rule."""
    return find_spec(f"mothtrap.repairs.{finding.name}") is not None


def is_anywhere(finding: Finding) -> bool:
    """Return whether the repair may be in any file, not only at the finding's location.

    Raises:
        MissingExtraError: libcst is not installed.
    """
    module = _module(finding)
    if hasattr(module, "is_anywhere"):
        return bool(module.is_anywhere(finding))
    return bool(getattr(module, "ANYWHERE", False))


def place_of(finding: Finding) -> str:
    """Return the file that a repair changes; "" if the finding names no file.

    Raises:
        NoCertainRepairError: the finding does not name the line that the repair needs.
        MissingExtraError: libcst is not installed.
    """
    module = _module(finding)
    if hasattr(module, "place"):
        return str(module.place(finding)[0])
    return (finding.location or "").rpartition(":")[0]


def patch(finding: Finding, file: str, source: str) -> Patch:
    """Return the repair of a finding.

    Args:
        finding: finding of a rule that `is_known`.
        file: file to change.
        source: text of the file.

    Raises:
        NoCertainRepairError: there is no single certain repair; the message names the decision.
    """
    module = _module(finding)
    from mothtrap.repairs.script import NoCertainRepairError, Script

    try:
        text = module.repair(Script(source), finding)
        ast.parse(text)
    except SyntaxError as err:
        raise NoCertainRepairError("the repaired file would not be valid Python") from err
    return Patch(finding=finding, file=file, text=text, diff=_diff(file, source, text))


def _module(finding: Finding) -> Any:
    try:
        return importlib.import_module(f"mothtrap.repairs.{finding.name}")
    except ImportError as err:
        if (err.name or "").partition(".")[0] != "libcst":
            raise
        raise MissingExtraError("mothtrap fix", "libcst", "fix") from err


def _diff(file: str, before: str, after: str) -> str:
    name = PurePath(file).as_posix().lstrip("/")
    lines = difflib.unified_diff(
        before.splitlines(keepends=True),
        after.splitlines(keepends=True),
        f"a/{name}",
        f"b/{name}",
        n=CONTEXT_LINES,
    )
    ended = (
        one if one.endswith("\n") else one + "\n\\ No newline at end of file\n" for one in lines
    )
    return "".join(ended)
