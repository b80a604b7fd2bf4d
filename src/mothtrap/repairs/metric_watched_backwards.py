"""Monitor a metric in the direction in which it improves."""

from __future__ import annotations

import libcst as cst

from mothtrap.core.findings import Finding
from mothtrap.repairs.script import NoCertainRepairError, Script, code, keyword, line_of, only

_OTHER = {"min": "max", "max": "min"}


def repair(script: Script, finding: Finding) -> str:
    """Return the source with the other `mode=` on the line that the finding names."""
    line = line_of(finding)
    given = [
        arg.value
        for call in script.at(line, cst.Call)
        if (arg := keyword(call, "mode")) is not None and isinstance(arg.value, cst.SimpleString)
    ]
    value = only(given, f"`mode=` in line {line}")
    mode = code(value)
    other = _OTHER.get(mode[1:-1])
    if other is None or mode[1:-1] != finding.evidence.get("mode"):
        raise NoCertainRepairError(f"the run did not use `mode={mode}` of line {line}")
    return script.replaced(value, cst.SimpleString(f"{mode[0]}{other}{mode[-1]}"))
