"""Keep the argument of a logarithm away from 0."""

from __future__ import annotations

import re

import libcst as cst

from mothtrap.core.findings import Finding
from mothtrap.repairs.script import (
    NoCertainRepairError,
    Script,
    bracketed,
    code,
    last_name,
    line_of,
    replaced_all,
)

SMALLEST = "1e-7"
"""Lower bound of a probability; about the precision of float32, as in Keras."""
_BROKE = re.compile(
    r"torch\.(?P<name>log|log2|log10|sqrt) produced it [^(]*\(.* from (?P<least>\S+) to"
)
_ZEROS = re.compile(r"\d+ of \d+ values? (?:are|is) 0")


def repair(script: Script, finding: Finding) -> str:
    """Return the source with `clamp(min=...)` around the argument of each logarithm on the line.

    Only if, in the run, the logarithm of exactly 0 made the loss infinite or NaN, and no argument
    was negative or NaN.
    """
    broke = _BROKE.search(finding.message)
    if broke is None or not _ZEROS.search(finding.message):
        raise NoCertainRepairError("the failing operation is not a logarithm of 0")
    if broke["least"].startswith("-") or broke["least"] == "nan":
        raise NoCertainRepairError("some arguments are negative; decide how to make them positive")
    line = line_of(finding)
    calls = [
        one
        for one in script.at(line, cst.Call)
        if isinstance(one.func, cst.Attribute) and last_name(one.func) == broke["name"]
    ]
    if not calls:
        raise NoCertainRepairError(f"line {line} does not call {broke['name']}")
    arguments = [_argument(call) for call in calls]
    return replaced_all(
        script,
        [
            (one, cst.parse_expression(f"{bracketed(one)}.clamp(min={SMALLEST})"))
            for one in arguments
        ],
    )


def _argument(call: cst.Call) -> cst.BaseExpression:
    """Return the tensor of `torch.log(x)` or `x.log()`."""
    assert isinstance(call.func, cst.Attribute)
    if code(call.func.value) != "torch":
        return call.func.value
    if not call.args:
        raise NoCertainRepairError(f"`{code(call)}` has no argument")
    return call.args[0].value
