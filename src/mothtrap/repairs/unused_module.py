"""Register layers that are kept in a plain list."""

from __future__ import annotations

import libcst as cst

from mothtrap.core.findings import Finding
from mothtrap.repairs.script import NoCertainRepairError, Script, assigned, code, only


def repair(script: Script, finding: Finding) -> str:
    """Return the source with the list wrapped in `nn.ModuleList`."""
    if "is a plain " not in finding.message:
        raise NoCertainRepairError("the module is not in a plain list; decide whether it is needed")
    name = finding.layers[0].rpartition(".")[2] if finding.layers else ""
    assignment = only(assigned(script, f"self.{name}"), f"assignment of self.{name}")
    value = assignment.value
    if not _is_list(script, value):
        raise NoCertainRepairError(f"`self.{name}` is not created by a list")
    classes = script.at(script.line(assignment), cst.ClassDef)
    bases = [code(base.value) for one in classes[-1:] for base in one.bases]
    prefix = next((base.removesuffix(".Module") for base in bases if base.endswith(".Module")), "")
    if not prefix:
        raise NoCertainRepairError("the class does not derive from `nn.Module` under that name")
    wrapped = cst.Call(cst.parse_expression(f"{prefix}.ModuleList"), args=[cst.Arg(value)])
    return script.replaced(value, wrapped)


def _is_list(script: Script, value: cst.BaseExpression) -> bool:
    """Return whether a value is a list, or a variable that is assigned once, with a list."""
    if isinstance(value, cst.Name):
        made = assigned(script, value.value)
        return len(made) == 1 and isinstance(made[0].value, cst.List | cst.ListComp)
    return isinstance(value, cst.List | cst.ListComp)
