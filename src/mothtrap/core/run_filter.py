"""Filter expressions that select runs, such as `lr > 1e-3 and GRD101`. Nothing is executed.

    expression  = either { "or" either }
    either      = part { "and" part }
    part        = "not" part | "(" expression ")" | operand [ operator operand ]
    operator    = == | != | < | <= | > | >= | ~ (contains, in any case)
    operand     = a number | 'a text' | a name

A name refers to a parameter, a metric, or a property of the run (`state`, `steps` ...). A name
without an operator is true if the run has a finding of that code or name, or that tag, or if its
value is neither empty nor false. A comparison with a name that the run lacks is false.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from mothtrap.core.errors import QueryError, nearest

Value = str | int | float | bool | None
MAX_CHARACTERS = 2_000
MAX_DEPTH = 50
_TOKEN = re.compile(
    r"\s*(?:(?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?![\w.]))"
    r"|(?P<text>'[^']*'|\"[^\"]*\")|(?P<sign>==|!=|<=|>=|<|>|=|~|\(|\))"
    r"|(?P<name>[^\W\d][\w./:*-]*))"
)
_EXAMPLE = "e.g. lr > 1e-3 and GRD101, or state == 'crashed'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Properties of a run that a filter expression can refer to.

    Attributes:
        values: parameters, metrics, and properties of the run, by name.
        marks: codes and names of findings, and tags.
    """

    values: Mapping[str, Value]
    marks: Collection[str]


Test = Callable[[Facts], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    """A parsed filter expression.

    Attributes:
        text: the expression as written.
        names: names that occur in it.
        test: returns whether a run matches.
    """

    text: str
    names: frozenset[str]
    test: Test

    def check(self, known: Collection[str]) -> None:
        """Raise an error if the expression contains a name that no run has.

        Args:
            known: names of all runs.

        Raises:
            QueryError: a name is unknown; the message suggests one.
        """
        lower = {name.lower() for name in known}
        for name in sorted(self.names):
            if name.lower() not in lower and not _is_code(name):
                raise QueryError(
                    f"no run has {name!r}{nearest(name, known)}: it is not a parameter, metric, "
                    "tag, or finding of any run; put strings in quotes"
                )


def read_filter(text: str) -> RunFilter:
    """Parse a filter expression.

    Raises:
        QueryError: the expression is invalid; the message gives the position.
    """
    if len(text) > MAX_CHARACTERS:
        raise QueryError(
            f"the expression has {len(text):,} characters; at most {MAX_CHARACTERS:,} are allowed"
        )
    reader = _Reader(text)
    test = reader.expression(0)
    if reader.kind != "end":
        reader.fail("expected `and`, `or` or the end")
    return RunFilter(text=text, names=frozenset(reader.names), test=test)


class _Reader:
    """Reads tokens one by one; `kind` and `word` describe the next token."""

    def __init__(self, text: str) -> None:
        self._text, self._place = text, 0
        self.names: set[str] = set()
        self.kind, self.word = "", ""
        self._next()

    def fail(self, what: str) -> None:
        """Raise an error about the expression at this position."""
        found = repr(self.word) if self.kind != "end" else "nothing"
        raise QueryError(
            f"{self._text!r} cannot be read at character {self._place - len(self.word) + 1}: "
            f"{what}, found {found}; {_EXAMPLE}"
        )

    def expression(self, depth: int) -> Test:
        """Read up to the end of an expression."""
        if depth > MAX_DEPTH:
            raise QueryError(f"the expression is nested more than {MAX_DEPTH} deep")
        tests = [self._either(depth)]
        while self._took("or"):
            tests.append(self._either(depth))
        return tests[0] if len(tests) == 1 else lambda facts: any(t(facts) for t in tests)

    def _either(self, depth: int) -> Test:
        tests = [self._part(depth)]
        while self._took("and"):
            tests.append(self._part(depth))
        return tests[0] if len(tests) == 1 else lambda facts: all(t(facts) for t in tests)

    def _part(self, depth: int) -> Test:
        if depth > MAX_DEPTH:
            raise QueryError(f"the expression is nested more than {MAX_DEPTH} deep")
        if self._took("not"):
            inner = self._part(depth + 1)
            return lambda facts: not inner(facts)
        if self.word == "(" and self.kind == "sign":
            self._next()
            inner = self.expression(depth + 1)
            if self.word != ")":
                self.fail("expected )")
            self._next()
            return inner
        name, left = self._operand()
        if self.kind == "sign" and self.word != ")":
            sign = self.word
            self._next()
            _, right = self._operand()
            return lambda facts: _compared(left(facts), sign, right(facts))
        if name is None:
            self.fail("expected a comparison after a number or string")
        known = str(name)
        return lambda facts: _holds(facts, known, left(facts))

    def _operand(self) -> tuple[str | None, Callable[[Facts], Value]]:
        kind, word = self.kind, self.word
        if kind == "number":
            number = float(word)
            self._next()
            return None, lambda _: number
        if kind == "text":
            text = word[1:-1]
            self._next()
            return None, lambda _: text
        if kind != "name" or word in ("and", "or", "not"):
            self.fail("expected a name, a number, or a string in quotes")
        self._next()
        if word.lower() in ("true", "false"):
            return None, lambda _: word.lower() == "true"
        self.names.add(word)
        return word, lambda facts: facts.values.get(word)

    def _took(self, word: str) -> bool:
        if self.kind == "name" and self.word.lower() == word:
            self._next()
            return True
        return False

    def _next(self) -> None:
        rest = self._text[self._place :]
        if not rest.strip():
            self.kind, self.word, self._place = "end", "", len(self._text)
            return
        match = _TOKEN.match(self._text, self._place)
        if match is None:
            self.kind, self.word = "other", rest.strip()[:1]
            self._place = len(self._text) - len(rest.lstrip()) + 1
            self.fail("expected a name, a number, or a string in quotes")
            return
        self.kind, self.word = str(match.lastgroup), match.group().strip()
        self._place = match.end()


def _holds(facts: Facts, name: str, value: Value) -> bool:
    marks = {mark.lower() for mark in facts.marks}
    return name.lower() in marks or (value not in (None, "", False, 0) and value == value)


def _compared(left: Value, sign: str, right: Value) -> bool:
    if left is None or right is None:
        return False
    if sign == "~":
        return str(right).lower() in str(left).lower()
    numbers = _number(left), _number(right)
    if numbers[0] is not None and numbers[1] is not None:
        return _ordered(numbers[0], sign, numbers[1])
    if isinstance(left, str) and isinstance(right, str):
        return _ordered(left.lower(), sign, right.lower())
    return sign == "!="  # a number and a text are never equal, and have no order


def _ordered(left: float | str, sign: str, right: float | str) -> bool:
    if sign in ("==", "="):
        return left == right
    if sign == "!=":
        return left != right
    if isinstance(left, str) or isinstance(right, str):
        ordered = (str(left) > str(right)) - (str(left) < str(right))
    elif math.isnan(left) or math.isnan(right):
        return False
    else:
        ordered = (left > right) - (left < right)
    return {"<": ordered < 0, "<=": ordered <= 0, ">": ordered > 0, ">=": ordered >= 0}[sign]


def _number(value: Value) -> float | None:
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, int | float):
        return float(value)
    try:
        return float(str(value))
    except ValueError:
        return None


def _is_code(name: str) -> bool:
    return re.fullmatch(r"[A-Za-z]{3}\d{3}", name) is not None
