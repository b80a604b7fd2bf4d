"""The short form of a rule: a function, or a class, with `@rule` above it."""

from __future__ import annotations

import dataclasses
import inspect
import re
import types
import typing
from collections.abc import Callable, Sequence
from typing import Any, Literal

from mothtrap.core.errors import ConfigError
from mothtrap.core.findings import Severity
from mothtrap.core.needs import Need
from mothtrap.core.proof import Proof
from mothtrap.core.rule import Rule
from mothtrap.core.rule_form import SETTINGS, check_code, check_threshold, completed, give_findings
from mothtrap.core.window import Window

_KINDS: dict[Any, type] = {key: kind for kind in SETTINGS for key in (kind, kind.__name__)}
"""Types of thresholds by annotation, which is a string after `from __future__ import annotations`.
"""


def rule(
    code: str,
    *,
    severity: Severity | Literal["error", "warning", "info"] | None = None,
    needs: Sequence[Need] = (),
    explains: Sequence[str] = (),
    passes: bool = False,
    title: str = "",
    compares: bool = False,
    proof: Proof | None = None,
) -> Callable[[Callable[..., Any]], type[Rule]]:
    """Turn a function or a class into a rule.

    A function takes the window, and its thresholds as keyword-only arguments with defaults. A
    default may be a `threshold(...)`, which adds a unit and a source. The function returns or
    yields a `Found` for each fault, or raises `NotEnoughData` or `NotApplicable` with the reason.
    A class derives from `Rule`, has thresholds as fields with defaults, and a method
    `check(self, window)` that does the same; it becomes a frozen dataclass.
    The rule is named after the function, or after the class in lower case with underscores. The
    docstring is its documentation::

        @mothtrap.rule("ACT901", needs=[Need(kinds=("activation",), statistics=("abs_max",))])
        def huge_activation(window, *, limit: float = 1e4):
            ...

    Args:
        code: two or more capital letters and three digits; no other rule may have the code.
        severity: default severity of findings; `warning` unless given.
        needs: data to capture; a class may set it in its body instead.
        explains: names of the rules whose findings this fault causes.
        passes: a finding becomes an `info` when the rule stops finding the fault.
        title: name of the fault to show, if it differs from the words of the rule's name.
        compares: the rule compares workers; its windows have the other workers as `peers`.
        proof: chart of the data that proves a finding.

    Returns:
        A decorator that returns the rule's class.

    Raises:
        ConfigError: the code, the function, or the class is not valid for a rule.
    """
    check_code(code)
    given: dict[str, Any] = {"code": code}
    given |= {} if severity is None else {"severity": severity}
    # A falsy value may be wrong, too, such as None.
    given |= {} if isinstance(needs, tuple) and not needs else {"needs": needs}
    given |= {} if isinstance(explains, tuple) and not explains else {"explains": explains}
    given |= {} if passes is False else {"passes": passes}
    given |= {} if title == "" else {"title": title}
    given |= {} if compares is False else {"compares": compares}
    given |= {} if proof is None else {"proof": proof}

    def decorate(made: Callable[..., Any]) -> type[Rule]:
        if isinstance(made, type):
            return _of_class(made, given)
        return _of_function(made, given)

    return decorate


def _of_class(made: type, given: dict[str, Any]) -> type[Rule]:
    if not issubclass(made, Rule):
        raise ConfigError(
            f"@rule decorates {made.__name__}, which must derive from mothtrap.Rule and have a "
            "method check(window)"
        )
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", made.__name__).lower()
    for key, value in (given | {"called": name}).items():
        setattr(made, key, value)
    rule = completed(made)
    give_findings(rule)
    return rule


def _of_function(function: Callable[..., Any], given: dict[str, Any]) -> type[Rule]:
    if not inspect.isfunction(function) or inspect.iscoroutinefunction(function):
        raise ConfigError(
            f"@rule decorates {function!r}; it must decorate a function (`def`, not `async def`) "
            "or a class"
        )
    name = function.__name__
    settings = _settings(name, function)

    def check(self: Rule, window: Window) -> Any:
        values = {field: getattr(self, field) for field, *_ in settings}
        return function(window, **values)

    def body(namespace: dict[str, Any]) -> None:
        namespace.update(given, called=name, check=check, __module__=function.__module__)
        namespace.update(__doc__=function.__doc__ or "", __qualname__=name)
        namespace["__annotations__"] = {field: kind for field, kind, _ in settings}
        namespace.update({field: default for field, _, default in settings})

    check.__wrapped__ = function  # type: ignore[attr-defined]  # where the rule is written
    made = completed(types.new_class(name, (Rule,), exec_body=body))
    give_findings(made)
    return made


def _settings(name: str, function: Callable[..., Any]) -> list[tuple[str, type, Any]]:
    """Return the keyword-only arguments of a function as (name, type, default)."""
    arguments = list(inspect.signature(function).parameters.values())
    if not arguments or arguments[0].kind is inspect.Parameter.KEYWORD_ONLY:
        raise ConfigError(
            f"the rule {name} must take the window as its first argument: write "
            f"`def {name}(window):`"
        )
    found: list[tuple[str, type, Any]] = []
    for argument in arguments[1:]:
        given = argument.default
        # `threshold(...)` returns a field, which also has the unit and the source.
        default = given.default if isinstance(given, dataclasses.Field) else given
        if argument.kind is not inspect.Parameter.KEYWORD_ONLY or not isinstance(default, SETTINGS):
            raise ConfigError(
                f"the rule {name} has the argument {argument.name!r}; besides the window, a rule "
                "takes only thresholds: keyword-only arguments (after `*`) whose defaults are "
                "numbers, strings, True, or False"
            )
        check_threshold(f"the rule {name}", argument.name, default)
        kind = _KINDS.get(argument.annotation)
        if kind is None:  # asked for all arguments at once, which takes long
            kind = typing.get_type_hints(function).get(argument.name, type(default))
        found.append((argument.name, kind, given))
    return found
