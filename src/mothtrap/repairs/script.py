"""A script as a syntax tree that keeps format and comments, with search functions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TypeVar

import libcst as cst
from libcst.metadata import CodeRange, MetadataWrapper, ParentNodeProvider, PositionProvider

from mothtrap.core.findings import Finding

Node = TypeVar("Node", bound=cst.CSTNode)
Item = TypeVar("Item")
_PLACE = re.compile(r"called at (?P<file>[^\s,;]+?):(?P<line>\d+)")


class NoCertainRepairError(Exception):
    """A finding has no single certain repair; the message names the decision for a person."""


class Script:
    """Source of one file.

    Args:
        source: text of the file.

    Raises:
        NoCertainRepairError: the file is not valid Python.
    """

    def __init__(self, source: str) -> None:
        try:
            wrapper = MetadataWrapper(cst.parse_module(source))
        except cst.ParserSyntaxError as err:
            raise NoCertainRepairError(f"the file cannot be parsed: {err.message}") from err
        self.module = wrapper.module
        self._places = wrapper.resolve(PositionProvider)
        self._parents = wrapper.resolve(ParentNodeProvider)

    def every(self, kind: type[Node]) -> list[Node]:
        """Return the nodes of a type, in source order."""
        found = [node for node in self._places if isinstance(node, kind)]
        return sorted(found, key=lambda node: (self.lines(node).start.line, self._column(node)))

    def at(self, line: int, kind: type[Node]) -> list[Node]:
        """Return the nodes of a type that span a line, outermost first."""
        return [
            node
            for node in self.every(kind)
            if self.lines(node).start.line <= line <= self.lines(node).end.line
        ]

    def lines(self, node: cst.CSTNode) -> CodeRange:
        """Return the first and last line of a node."""
        return self._places[node]

    def line(self, node: cst.CSTNode) -> int:
        """Return the first line of a node."""
        return self.lines(node).start.line

    def _column(self, node: cst.CSTNode) -> int:
        return self.lines(node).start.column

    def parents(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """Yield the ancestors of a node, innermost first."""
        while node in self._parents:
            node = self._parents[node]
            yield node

    def statement(self, node: cst.CSTNode) -> cst.SimpleStatementLine | cst.BaseCompoundStatement:
        """Return the statement that contains a node."""
        for one in (node, *self.parents(node)):
            if isinstance(one, cst.SimpleStatementLine | cst.BaseCompoundStatement):
                return one
        raise NoCertainRepairError("the line is not part of a statement")

    def block(self, statement: cst.CSTNode) -> Sequence[cst.CSTNode]:
        """Return the statements of the block that contains a statement."""
        parent = next(self.parents(statement))
        return list(parent.body) if isinstance(parent, cst.IndentedBlock | cst.Module) else []

    def calls(self, name: str) -> list[cst.Call]:
        """Return the calls to functions and methods with a given last name, e.g. `zero_grad`."""
        return [call for call in self.every(cst.Call) if last_name(call.func) == name]

    def replaced(self, old: cst.CSTNode, new: cst.CSTNode) -> str:
        """Return the source with a node replaced."""
        return replaced_all(self, [(old, new)])

    def with_statements(
        self,
        *,
        before: Sequence[tuple[cst.CSTNode, str]] = (),
        after: Sequence[tuple[cst.CSTNode, str]] = (),
        without: Sequence[cst.CSTNode] = (),
    ) -> str:
        """Return the source with statements added and removed.

        Args:
            before: a statement, and the source of the statement to insert before it.
            after: a statement, and the source of the statement to insert after it.
            without: statements to remove.
        """
        lines = re.findall(r"[^\n]*\n|[^\n]+$", self.module.code)
        edits: list[tuple[int, str]] = []
        for node, text in before:
            edits.append((self.line(node) - 1, self._indented(node, text)))
        for node, text in after:
            edits.append((self.lines(node).end.line, self._indented(node, text)))
        gone = {
            number - 1
            for node in without
            for number in range(self.line(node), self.lines(node).end.line + 1)
        }
        result = []
        for number, line in enumerate([*lines, ""]):
            result += [text for place, text in edits if place == number]
            result += [] if number in gone else [line]
        return "".join(result)

    def _indented(self, node: cst.CSTNode, text: str) -> str:
        line = self.module.code.split("\n")[self.line(node) - 1]
        return line[: self._column(node)] + text + self.module.default_newline


class _Replacing(cst.CSTTransformer):
    """Replaces old nodes with new ones."""

    def __init__(self, new: dict[cst.CSTNode, cst.CSTNode]) -> None:
        self._new = new

    def on_leave(  # type: ignore[override]  # libcst allows a node to be removed, too
        self, original_node: cst.CSTNode, updated_node: cst.CSTNode
    ) -> cst.CSTNode:
        return self._new.get(original_node, updated_node)


def replaced_all(script: Script, pairs: Sequence[tuple[cst.CSTNode, cst.CSTNode]]) -> str:
    """Return the source with nodes replaced, given as pairs of old and new node."""
    return script.module.visit(_Replacing(dict(pairs))).code


def with_called(script: Script, name: str) -> str | None:
    """Return the source with brackets added to a statement `x.name`.

    Returns:
        None unless exactly one statement does so.
    """
    found = [
        one.value
        for one in script.every(cst.Expr)
        if isinstance(one.value, cst.Attribute) and one.value.attr.value == name
    ]
    return script.replaced(found[0], cst.Call(found[0])) if len(found) == 1 else None


def without_with(script: Script, block: cst.With) -> str:
    """Return the source without a `with` line, with its block dedented.

    Raises:
        NoCertainRepairError: the block is on the line of the `with`.
    """
    text = re.findall(r"[^\n]*\n|[^\n]+$", script.module.code)
    first, last = script.line(block), script.lines(block).end.line
    inside = block.body.body[0]
    if script.line(inside) == first:
        raise NoCertainRepairError("the `with` block is on one line")
    at = script.lines(block).start.column
    end = script.lines(inside).start.column
    begin = script.lines(block.items[-1]).end.line
    moved = [
        line[:at] + line[end:] if line[at:end].isspace() else line for line in text[begin:last]
    ]
    return "".join([*text[: first - 1], *moved, *text[last:]])


def bracketed(node: cst.BaseExpression) -> str:
    """Return the source of an expression, in brackets if a method call cannot follow it."""
    simple = isinstance(node, cst.Name | cst.Attribute | cst.Call | cst.Subscript)
    return code(node) if simple or node.lpar else f"({code(node)})"


def loops_around(script: Script, node: cst.CSTNode) -> list[cst.For | cst.While]:
    """Return the loops around a node, innermost first, within its function."""
    found: list[cst.For | cst.While] = []
    for one in script.parents(node):
        if isinstance(one, cst.FunctionDef | cst.ClassDef | cst.Lambda):
            break
        if isinstance(one, cst.For | cst.While):
            found.append(one)
    return found


def function_around(script: Script, node: cst.CSTNode) -> cst.FunctionDef | None:
    """Return the innermost function around a node."""
    return next((one for one in script.parents(node) if isinstance(one, cst.FunctionDef)), None)


def is_alone(script: Script, node: cst.CSTNode) -> bool:
    """Return whether the lines of a node contain nothing else except a comma and a comment."""
    lines = script.module.code.split("\n")
    first, last = script.lines(node).start, script.lines(node).end
    after = lines[last.line - 1][last.column :].strip().lstrip(",").strip()
    before = lines[first.line - 1][: first.column].strip()
    return not before and (not after or after.startswith("#"))


def code(node: cst.CSTNode) -> str:
    """Return the source of an expression or statement, without surrounding spaces."""
    return cst.Module([]).code_for_node(node).strip()


def last_name(node: cst.BaseExpression) -> str:
    """Return the last part of a dotted name, e.g. `step` in `self.opt.step`; "" for others."""
    if isinstance(node, cst.Attribute):
        return node.attr.value
    return node.value if isinstance(node, cst.Name) else ""


def owner(call: cst.Call) -> cst.BaseExpression | None:
    """Return the object of a method call: `opt` in `opt.step()`."""
    return call.func.value if isinstance(call.func, cst.Attribute) else None


def place_called(message: str) -> tuple[str, int] | None:
    """Return the file and line of the call named in a finding's message."""
    found = _PLACE.search(message)
    return (found["file"], int(found["line"])) if found else None


def line_of(finding: Finding) -> int:
    """Return the line that a finding names in this file, or 0."""
    return int((finding.location or ":0").rpartition(":")[2])


def keyword(call: cst.Call, name: str) -> cst.Arg | None:
    """Return a keyword argument of a call."""
    return next((one for one in call.args if one.keyword and one.keyword.value == name), None)


def with_keyword(call: cst.Call, name: str, value: str) -> cst.Call:
    """Return a call with a keyword argument appended."""
    equal = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
    more = cst.Arg(cst.parse_expression(value), keyword=cst.Name(name), equal=equal)
    if not call.args:
        return call.with_changes(args=[more])
    comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    last = call.args[-1]
    if isinstance(last.comma, cst.Comma):
        more = more.with_changes(comma=last.comma)
        comma = call.args[0].comma if len(call.args) > 1 else last.comma  # type: ignore[assignment]
    return call.with_changes(args=[*call.args[:-1], last.with_changes(comma=comma), more])


def without_argument(call: cst.Call, argument: cst.Arg) -> cst.Call:
    """Return a call without one of its arguments."""
    args = [one for one in call.args if one is not argument]
    if args and argument is call.args[-1]:
        args[-1] = args[-1].with_changes(comma=argument.comma)
    return call.with_changes(args=args)


def names_in(node: cst.CSTNode) -> set[str]:
    """Return the names that an expression or statement reads or assigns."""
    found: set[str] = set()

    class Names(cst.CSTVisitor):
        def visit_Name(self, node: cst.Name) -> None:  # noqa: N802  # name of libcst
            found.add(node.value)

    node.visit(Names())
    return found


def assigned(script: Script, name: str) -> list[cst.Assign]:
    """Return the assignments to a variable."""
    return [
        one
        for one in script.every(cst.Assign)
        if any(code(target.target) == name for target in one.targets)
    ]


def only(items: Sequence[Item], what: str) -> Item:
    """Return the only item.

    Raises:
        NoCertainRepairError: there is none, or more than one.
    """
    if len(items) != 1:
        raise NoCertainRepairError(f"{len(items) or 'no'} {what} found where one is needed")
    return items[0]
