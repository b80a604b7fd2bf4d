"""Scale pixels from 0..255 to 0..1 in the model's forward."""

from __future__ import annotations

import re

import libcst as cst

from mothtrap.core.findings import Finding
from mothtrap.repairs.script import NoCertainRepairError, Script, code, only

ANYWHERE = True

_PIXELS = re.compile(r"gets data from 0 to 25[0-5]:")


def repair(script: Script, finding: Finding) -> str:
    """Return the source with `x = x / 255` as the first line of `forward`.

    Only for data from 0 to 255, and if the file defines one model with one input.
    """
    if not _PIXELS.search(finding.message):
        raise NoCertainRepairError("the data are not pixels (0 to 255); decide how to scale them")
    forwards = [one for one in script.every(cst.FunctionDef) if one.name.value == "forward"]
    if not forwards:
        raise NoCertainRepairError("the model has no `forward` here; divide the data by 255")
    forward = only(forwards, "method `forward`")
    names = [one.name.value for one in forward.params.params]
    if len(names) != 2 or names[0] != "self":
        raise NoCertainRepairError("`forward` takes more than one input")
    if "255" in code(forward):
        raise NoCertainRepairError("`forward` already scales its input")
    first = next(iter(forward.body.body))
    if not isinstance(first, cst.SimpleStatementLine | cst.BaseCompoundStatement):
        raise NoCertainRepairError("`forward` has only one line")
    return script.with_statements(before=[(first, f"{names[1]} = {names[1]} / 255")])
