"""Compute a softmax over the classes."""

from __future__ import annotations

import libcst as cst

from mothtrap.core.findings import Finding
from mothtrap.repairs.script import NoCertainRepairError, Script, last_name, only, place_called

_NAMES = ("softmax", "log_softmax", "Softmax", "LogSoftmax")


def place(finding: Finding) -> tuple[str, int]:
    """Return file and line of the softmax."""
    found = place_called(finding.message)
    file, _, line = (finding.location or ":0").rpartition(":")
    return found or (file, int(line))


def repair(script: Script, finding: Finding) -> str:
    """Return the source with `dim=1` if a softmax over two axes uses the first axis."""
    line = place(finding)[1]
    calls = [call for call in script.at(line, cst.Call) if last_name(call.func) in _NAMES]
    call = only(calls, f"softmax in line {line}")
    values = [one.value for one in call.args if one.keyword and one.keyword.value == "dim"]
    if not values and last_name(call.func) in _NAMES[2:]:
        values = [one.value for one in call.args[:1]]
    if not values:
        values = [one.value for one in call.args[1:2] if one.keyword is None]
    axis = only(values, "`dim` in the call")
    if not isinstance(axis, cst.Integer) or axis.value != "0":
        raise NoCertainRepairError("the softmax is not over axis 0; decide which axis is right")
    return script.replaced(axis, cst.Integer("1"))
