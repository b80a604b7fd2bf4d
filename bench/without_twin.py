"""Writes copies of fault programs without any trace of their repaired twin.

Each program of `faultbench` has a switch (`args.healthy` or `run.healthy`) between its fault and
the repair. A copy contains the code that remains with the switch off. No branch, name, option,
comment, or docstring shows where the fault is, or that there is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import libcst as cst

SWITCHES = ("args.healthy", "run.healthy", "self.fixed")
NEUTRAL = {"fixed": "flag"}
"""Names of the switch within a program, and the names in the copy."""


def written(script: Path, folder: Path) -> Path:
    """Copy a program and its helper files into a folder; return the path of the copy."""
    folder.mkdir(parents=True, exist_ok=True)
    copy = folder / "train.py"
    pairs = [(script, copy), *((path, folder / path.name) for path in script.parent.glob("_*.py"))]
    for original, written_to in pairs:
        text = switched_off(original.read_text(encoding="utf-8"))
        written_to.write_text(text, encoding="utf-8")
    return copy


def switched_off(source: str) -> str:
    """Return the source of a program without its twin, comments, and docstrings."""
    return cst.parse_module(source).visit(_Off()).code


class _Off(cst.CSTTransformer):
    """Replaces the switch by False, and every branch on it by the branch that is left."""

    def leave_TrailingWhitespace(  # noqa: N802  # name of libcst
        self,
        original_node: cst.TrailingWhitespace,  # noqa: ARG002  # signature of libcst
        updated_node: cst.TrailingWhitespace,
    ) -> cst.TrailingWhitespace:
        return updated_node.with_changes(comment=None, whitespace=cst.SimpleWhitespace(""))

    def leave_EmptyLine(  # noqa: N802  # name of libcst
        self,
        original_node: cst.EmptyLine,  # noqa: ARG002  # signature of libcst
        updated_node: cst.EmptyLine,
    ) -> cst.EmptyLine:
        return updated_node.with_changes(comment=None)

    def leave_Name(  # noqa: N802  # name of libcst
        self,
        original_node: cst.Name,  # noqa: ARG002  # signature of libcst
        updated_node: cst.Name,
    ) -> cst.Name:
        return updated_node.with_changes(value=NEUTRAL.get(updated_node.value, updated_node.value))

    def leave_SimpleStatementLine(  # noqa: N802  # name of libcst
        self,
        original_node: cst.SimpleStatementLine,  # noqa: ARG002  # signature of libcst
        updated_node: cst.SimpleStatementLine,
    ) -> cst.SimpleStatementLine | cst.RemovalSentinel:
        """Remove docstrings, and statements that define or store the switch."""
        first = updated_node.body[0]
        is_text = isinstance(first, cst.Expr) and isinstance(first.value, cst.SimpleString)
        if is_text or "healthy" in cst.Module([]).code_for_node(updated_node):
            return cst.RemoveFromParent()
        return updated_node

    def leave_IfExp(  # noqa: N802  # name of libcst
        self, original_node: cst.IfExp, updated_node: cst.IfExp
    ) -> cst.BaseExpression:
        chosen = _value(original_node.test)
        if chosen is None:
            return updated_node
        return updated_node.body if chosen else updated_node.orelse

    def leave_If(  # noqa: N802  # name of libcst
        self, original_node: cst.If, updated_node: cst.If
    ) -> cst.BaseStatement | cst.FlattenSentinel | cst.RemovalSentinel:
        chosen = _value(original_node.test)
        if chosen is None:
            return updated_node
        if chosen:
            return cst.FlattenSentinel(_statements(updated_node.body))
        if isinstance(updated_node.orelse, cst.Else):
            return cst.FlattenSentinel(_statements(updated_node.orelse.body))
        return cst.RemoveFromParent()

    def leave_Attribute(  # noqa: N802  # name of libcst
        self, original_node: cst.Attribute, updated_node: cst.Attribute
    ) -> cst.BaseExpression:
        if _is_switch(original_node) and original_node.attr.value == "healthy":
            return cst.Name("False")
        return updated_node


def _value(test: cst.BaseExpression) -> bool | None:
    """Return the value of a condition with the switch off; None if it is another condition."""
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        inner = _value(test.expression)
        return None if inner is None else not inner
    return False if _is_switch(test) else None


def _is_switch(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Attribute) and cst.Module([]).code_for_node(node) in SWITCHES


def _statements(body: cst.BaseSuite) -> Sequence[cst.BaseStatement]:
    if isinstance(body, cst.IndentedBlock):
        return body.body  # type: ignore[return-value]  # an indented block has statements only
    return [cst.SimpleStatementLine(body.body)]  # type: ignore[attr-defined]
