"""Shift the targets of a language model by one position."""

from __future__ import annotations

from collections import defaultdict

import libcst as cst

from mothtrap.core.findings import Finding
from mothtrap.repairs.script import (
    NoCertainRepairError,
    Script,
    code,
    function_around,
    keyword,
    last_name,
    only,
    with_keyword,
)

ANYWHERE = True

_TARGETS = ("target", "label", "tgt", "y")


def repair(script: Script, finding: Finding) -> str:
    """Return the source with shifted targets, or with a causal mask.

    Only if one function cuts the inputs and the targets with equal slices, `a:b` or `:-1` on the
    last axis, and the target variable has a corresponding name. For attention without a mask, only
    if one call has an argument that turns off the mask, or one `scaled_dot_product_attention` has
    no mask.
    """
    if finding.evidence.get("looks_ahead") == "attention":
        return _masked(script)
    if "labels are not shifted" not in finding.message or "decoder" in finding.message:
        raise NoCertainRepairError("the targets are shifted; decide what the model may see")
    pairs = [pair for pair in _equal_cuts(script) if _is_target(script, *pair)]
    target = only(pairs, "pair of equal slices for inputs and targets")[1]
    part = target.slice[-1]
    assert isinstance(part.slice, cst.Slice)
    return script.replaced(part.slice, _later(part.slice))


def _masked(script: Script) -> str:
    """Return the source with a causal mask in the only attention without a mask."""
    off = [
        arg.value
        for call in script.every(cst.Call)
        for name in _MASKS
        if (arg := keyword(call, name)) is not None and code(arg.value) == "False"
    ]
    if off:
        return script.replaced(only(off, "argument that turns off a mask"), cst.Name("True"))
    calls = [
        call
        for call in script.calls("scaled_dot_product_attention")
        if len(call.args) < 4
        and keyword(call, "attn_mask") is None
        and keyword(call, "is_causal") is None
    ]
    call = only(calls, "attention without a mask")
    return script.replaced(call, with_keyword(call, "is_causal", "True"))


_MASKS = ("is_causal", "use_causal_mask")
"""Arguments that switch a causal mask on."""


def _equal_cuts(script: Script) -> list[tuple[cst.Subscript, cst.Subscript]]:
    """Return the pairs of equal slices that a function takes from a sequence."""
    groups: dict[tuple[cst.FunctionDef | None, str], list[cst.Subscript]] = defaultdict(list)
    for one in script.every(cst.Subscript):
        part = one.slice[-1].slice
        if isinstance(part, cst.Slice) and part.step is None and _is_shiftable(part):
            groups[function_around(script, one), code(one)].append(one)
    return [(cuts[0], cuts[1]) for cuts in groups.values() if len(cuts) == 2]


def _is_shiftable(part: cst.Slice) -> bool:
    """Return whether a slice is `a:b`, with names in it, or `:-1`."""
    if part.upper is None:
        return False
    if part.lower is None:
        return code(part.upper) == "-1"
    return not isinstance(part.upper, cst.UnaryOperation | cst.Integer)


def _is_target(script: Script, first: cst.Subscript, second: cst.Subscript) -> bool:
    """Return whether only the second of two slices is assigned to a variable of targets."""
    names = [_assigned_name(script, one) for one in (first, second)]
    return bool(all(names)) and [_named_target(name) for name in names] == [False, True]


def _assigned_name(script: Script, node: cst.Subscript) -> str:
    """Return the variable that a slice is assigned to; "" without a variable."""
    inner: cst.CSTNode = node
    for one in script.parents(node):
        if isinstance(one, cst.Assign) and len(one.targets) == 1:
            target = one.targets[0].target
            if isinstance(target, cst.Tuple) and isinstance(one.value, cst.Tuple):
                parts = zip(target.elements, one.value.elements, strict=False)
                return next((last_name(to.value) for to, of in parts if of is inner), "")
            return last_name(_indexed(target))
        if isinstance(one, cst.Element):
            inner = one
    return ""


def _indexed(node: cst.BaseExpression) -> cst.BaseExpression:
    """Return `table` for `table[row]`, otherwise the expression itself."""
    while isinstance(node, cst.Subscript):
        node = node.value
    return node


def _named_target(name: str) -> bool:
    return any(word in name.lower() for word in _TARGETS[:-1]) or name.lower() in _TARGETS


def _later(part: cst.Slice) -> cst.Slice:
    """Return the slice that begins and ends one position later."""
    if part.lower is None:
        return part.with_changes(lower=cst.Integer("1"), upper=None)
    assert part.upper is not None
    return part.with_changes(
        lower=cst.parse_expression(f"{code(part.lower)} + 1"),
        upper=cst.parse_expression(f"{code(part.upper)} + 1"),
    )
