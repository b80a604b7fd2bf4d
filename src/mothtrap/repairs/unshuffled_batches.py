"""Shuffle the samples of a loader."""

from __future__ import annotations

import libcst as cst

from mothtrap.core.findings import Finding
from mothtrap.repairs.script import (
    NoCertainRepairError,
    Script,
    code,
    keyword,
    last_name,
    line_of,
    only,
    with_keyword,
)

ANYWHERE = True

_ELSEWHERE = "the batches do not come from a DataLoader without shuffling"


def repair(script: Script, finding: Finding) -> str:
    """Return the source with `shuffle=True` in the DataLoader of the loop that trains.

    If the run did not record which loader created the batches, the loop around the line of the loss
    must iterate over it.
    """
    sampler = finding.evidence.get("sampler")
    if sampler is not None and "sequential" not in str(sampler):
        raise NoCertainRepairError(_ELSEWHERE)
    loader = _loader(script, line_of(finding), is_known=sampler is not None)
    given = {one.keyword.value: one for one in loader.args if one.keyword is not None}
    for name in ("sampler", "batch_sampler"):
        if name in given:
            raise NoCertainRepairError(f"the DataLoader has a {name}; decide the order there")
    if any(one.star for one in loader.args):
        raise NoCertainRepairError("the DataLoader gets arguments by `*` or `**`")
    shuffle = given.get("shuffle")
    if shuffle is not None:
        if not isinstance(shuffle.value, cst.Name) or shuffle.value.value != "False":
            raise NoCertainRepairError("`shuffle` is not False in this line")
        return script.replaced(shuffle.value, cst.Name("True"))
    if sum(one.keyword is None for one in loader.args) > 2:
        raise NoCertainRepairError("`shuffle` is a positional argument")
    return script.replaced(loader, with_keyword(loader, "shuffle", "True"))


def _loader(script: Script, line: int, *, is_known: bool) -> cst.Call:
    """Return the call that creates the loader of the loop around a line, or the only loader.

    Args:
        script: script that creates the loader.
        line: line in the loop over the batches.
        is_known: the run recorded that a loader without shuffling created the batches.
    """
    loops = script.at(line, cst.For)
    wanted = {code(name) for loop in loops[-1:] for name in _names(script, loop.iter)}
    made = [
        one.value
        for one in script.every(cst.Assign)
        if isinstance(one.value, cst.Call)
        and last_name(one.value.func) == "DataLoader"
        and any(code(target.target) in wanted for target in one.targets)
    ]
    if not made and not is_known:
        raise NoCertainRepairError(_ELSEWHERE)
    if not made:
        made = [one for one in script.every(cst.Call) if "loader" in last_name(one.func).lower()]
        alone = only(made, "call that creates a loader")
        if keyword(alone, "shuffle") is None:
            raise NoCertainRepairError("decide where the order of the training loader is set")
    return only(made, f"DataLoader of the loop at line {line}")


def _names(script: Script, node: cst.CSTNode) -> list[cst.CSTNode]:
    """Return the names and attributes in an expression."""
    inside = [*script.every(cst.Name), *script.every(cst.Attribute)]
    return [one for one in inside if one is node or node in script.parents(one)]
