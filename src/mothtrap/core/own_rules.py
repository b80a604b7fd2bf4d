"""The short form of a rule: a function, or a class, with `@rule` above it."""

from __future__ import annotations

import dataclasses
import inspect
import re
import types
import typing
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

from mothtrap.core.errors import ConfigError
from mothtrap.core.findings import EvidenceValue, Finding, Severity
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.window import Window

CODE = re.compile(r"[A-Z]{2,}[0-9]{3}")
SETTINGS = (float, int, str, bool)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """Result of a rule that is a function: a fault from `step` on.

    `severity` is that of the rule when None. `layers` are module paths or names of
    tensors, the most affected first; `location` is `file:line` of what is to be changed.
    `last_step` is the last captured step at which it held, by default `step`.
    """

    step: int
    message: str
    severity: Severity | Literal["error", "warning", "info"] | None = None
    layers: tuple[str, ...] = ()
    evidence: dict[str, EvidenceValue] = dataclasses.field(default_factory=dict)
    location: str | None = None
    count: int = 1
    last_step: int | None = None
    confidence: str = "high"
    mode: str = "train"


def rule(
    code: str,
    *,
    severity: Severity | Literal["error", "warning", "info"] = Severity.WARNING,
    needs: Sequence[Need] = (),
    explains: Sequence[str] = (),
    passes: bool = False,
) -> Callable[[Callable[..., Any]], type[Rule]]:
    """Make a rule of a function or a class.

    A function takes the window, and its thresholds as keyword-only arguments with
    defaults; it returns, or yields, a `Found` for each fault, or raises `NotEnoughData`
    or `NotApplicable` with the reason. A class derives from `Rule` and has a `check`; it
    becomes a frozen dataclass. The name of the rule is that of the function, or that of
    the class in small letters with underscores; the docstring is its page::

        @mothtrap.rule("ACT901", needs=[Need(kinds=("activation",), statistics=("abs_max",))])
        def huge_activation(window, *, limit: float = 1e4):
            ...

    Args:
        code: two or more capitals and three digits that no other rule has.
        severity: of findings that do not say theirs; functions only.
        needs: what must be captured; a class may say it in its body instead.
        explains: names of the rules whose findings this one causes.
        passes: a finding becomes a note when the rule later finds it no more.

    Raises:
        ConfigError: the code, the function or the class cannot be one of a rule.
    """
    if not CODE.fullmatch(code):
        raise ConfigError(
            f"a rule's code is capitals and three digits, such as ACT901; got {code!r}"
        )
    given: dict[str, Any] = {"code": code}
    given |= {"needs": tuple(needs)} if needs else {}
    given |= {"explains": tuple(explains)} if explains else {}
    given |= {"passes": True} if passes else {}

    def decorate(made: Callable[..., Any]) -> type[Rule]:
        if isinstance(made, type):
            return _of_class(made, given)
        return _of_function(made, given, Severity(severity))

    return decorate


def _of_class(made: type, given: dict[str, Any]) -> type[Rule]:
    if not issubclass(made, Rule):
        raise ConfigError(
            f"@rule stands above {made.__name__}, which must derive from mothtrap.Rule "
            "and have a method check(window)"
        )
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", made.__name__).lower()
    for key, value in (given | {"called": name}).items():
        setattr(made, key, value)
    if inspect.isabstract(made):
        raise ConfigError(f"{made.__name__} has no method check(window)")
    if "__dataclass_fields__" in vars(made):
        if not made.__dataclass_params__.frozen:  # type: ignore[attr-defined]
            raise ConfigError(f"{made.__name__} must be a frozen dataclass: rules have no state")
        return made
    return dataclasses.dataclass(frozen=True)(made)


def _of_function(
    function: Callable[..., Any], given: dict[str, Any], severity: Severity
) -> type[Rule]:
    name = getattr(function, "__name__", "rule")
    settings = _settings(name, function)

    def check(self: Rule, window: Window) -> list[Finding]:
        values = {field: getattr(self, field) for field, *_ in settings}
        said = function(window, **values)
        return [_finding(self, window, item, severity) for item in _items(name, said)]

    def body(namespace: dict[str, Any]) -> None:
        namespace.update(given, called=name, check=check, __module__=function.__module__)
        namespace.update(__doc__=function.__doc__ or "", __qualname__=name)
        namespace["__annotations__"] = {field: kind for field, kind, _ in settings}
        namespace.update({field: default for field, _, default in settings})

    made = types.new_class(name, (Rule,), exec_body=body)
    return dataclasses.dataclass(frozen=True)(made)


def _settings(name: str, function: Callable[..., Any]) -> list[tuple[str, type, Any]]:
    """Keyword-only arguments of a function as (name, type, default)."""
    arguments = list(inspect.signature(function).parameters.values())
    if not arguments or arguments[0].kind is inspect.Parameter.KEYWORD_ONLY:
        raise ConfigError(f"the rule {name} must take the window as its first argument")
    hints = typing.get_type_hints(function)
    found: list[tuple[str, type, Any]] = []
    for argument in arguments[1:]:
        default = argument.default
        if argument.kind is not inspect.Parameter.KEYWORD_ONLY or not isinstance(default, SETTINGS):
            raise ConfigError(
                f"the rule {name} has the argument {argument.name!r}; beside the window a rule "
                "takes thresholds only: keyword-only arguments (after `*`) whose defaults are "
                "numbers, texts or true or false"
            )
        found.append((argument.name, hints.get(argument.name, type(default)), default))
    return found


def _items(name: str, said: object) -> Iterable[object]:
    if said is None:
        return ()
    if isinstance(said, Found | Finding):
        return (said,)
    if isinstance(said, Iterable) and not isinstance(said, str | bytes):
        return said
    raise TypeError(
        f"the rule {name} gave {said!r}; expected mothtrap.Found, a list of them or None"
    )


def _finding(made: Rule, window: Window, said: object, severity: Severity) -> Finding:
    if isinstance(said, Finding):
        return said
    if not isinstance(said, Found):
        raise TypeError(f"the rule {made.name()} gave {said!r}; expected mothtrap.Found")
    return made.finding(
        window,
        severity=severity if said.severity is None else Severity(said.severity),
        step=said.step,
        message=said.message,
        layers=said.layers,
        evidence=said.evidence,
        location=said.location,
        count=said.count,
        last_step=said.last_step,
        confidence=said.confidence,
        mode=said.mode,
    )
