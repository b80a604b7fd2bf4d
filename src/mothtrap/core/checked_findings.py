"""Checks of the findings that rules return; errors name the wrong field."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from mothtrap.core.findings import EvidenceValue, Finding, Severity, fingerprint
from mothtrap.core.found import Found
from mothtrap.core.steps import Mode

if TYPE_CHECKING:
    from mothtrap.core.rule import Rule
    from mothtrap.core.window import Window

MAX_FINDINGS = 1000
"""Maximum number of findings that a rule may return for a window; chosen by hand, to detect an
endless loop.
"""
LARGEST = 2**63


def findings_of(rule: Rule, window: Window, given: object) -> list[Finding]:
    """Convert the return value of a rule to findings.

    Args:
        rule: rule that returned the value.
        window: the window that the rule evaluated.
        given: None, a `Found` or `Finding`, or an iterable of them, such as a generator.

    Raises:
        TypeError: an item is not a finding, or has an invalid field.
        ValueError: there are too many findings for one window.
    """
    items = list(itertools.islice(_items(rule, given), MAX_FINDINGS + 1))
    if len(items) > MAX_FINDINGS:
        raise ValueError(
            f"the rule {rule.name()} returned more than {MAX_FINDINGS:,} findings for one window; "
            "return one finding per fault, and end the loop"
        )
    return [_finding(rule, window, item) for item in items]


def severity_of(value: object) -> Severity:
    """Return a severity by name; a TypeError lists the valid names."""
    try:
        return Severity(value)  # type: ignore[arg-type]
    except (ValueError, TypeError):
        raise TypeError(f"{value!r}; expected 'error', 'warning' or 'info'") from None


def _items(rule: Rule, given: object) -> Iterable[object]:
    if given is None:
        return ()
    if isinstance(given, Found | Finding):
        return (given,)
    if isinstance(given, Iterable) and not isinstance(given, str | bytes | dict):
        return given
    raise TypeError(
        f"the rule {rule.name()} returned {_shown(given)}; expected mothtrap.Found, a list of "
        "them, or None"
    )


def _finding(rule: Rule, window: Window, item: object) -> Finding:
    if not isinstance(item, Found | Finding):
        raise TypeError(
            f"the rule {rule.name()} returned {_shown(item)}; expected "
            "mothtrap.Found(step=..., message=...)"
        )
    values = {}
    for name, take in _FIELDS.items():
        try:
            values[name] = take(getattr(item, name))
        except (TypeError, ValueError) as err:
            raise TypeError(
                f"the rule {rule.name()} returned a finding whose `{name}` is {err}"
            ) from None
    if isinstance(item, Finding):
        return _completed(rule, item, values)
    if item.library is not None:
        window = window.of_library(_text(item.library))
    if item.last_step is None:
        values["last_step"] = None
    if item.fixes is not None:
        values["fixes"] = tuple(_fixes(rule, window, item.fixes))
    return rule.finding(window, **values)


def _fixes(rule: Rule, window: Window, advice: Iterable[str | int]) -> Iterator[str]:
    """Yield sentences, and the bullets at positions that apply to the framework of the run."""
    bullets = rule.doc().fixes_by_place(window.adapters)
    for one in advice:
        if isinstance(one, str):
            yield one
        elif one in bullets:
            yield bullets[one]


def _completed(rule: Rule, finding: Finding, values: dict[str, Any]) -> Finding:
    """Return a finding that the rule created itself, with its checked fields."""
    if finding.code != rule.code:
        raise TypeError(
            f"the rule {rule.name()} returned a finding with the code {_shown(finding.code)}; "
            f"expected {rule.code}: use self.finding(...) or mothtrap.Found(...)"
        )
    values["severity"] = values["severity"] or rule.severity
    identity = finding.fingerprint or fingerprint(rule.code, values["layers"], values["mode"])
    whole = msgspec.structs.replace(finding, name=rule.name(), fingerprint=identity, **values)
    try:
        return msgspec.msgpack.decode(msgspec.msgpack.encode(whole), type=Finding)
    except (msgspec.ValidationError, TypeError, ValueError, OverflowError) as err:
        raise TypeError(
            f"the rule {rule.name()} returned a finding with a wrong field ({err}); use "
            "self.finding(...) or mothtrap.Found(...)"
        ) from None


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:79]}…"


def _whole(value: Any) -> int:
    expected = f"{_shown(value)}; expected a whole number, 0 or above, such as int(steps_S[0])"
    if isinstance(value, bool | np.bool_):
        raise TypeError(expected)
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(expected) from None
    if not 0 <= number < LARGEST:
        raise TypeError(expected)
    return number


def _last_step(value: Any) -> int:
    return -1 if value is None or value == -1 else _whole(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{_shown(value)}; expected a string")
    return value.encode("utf-8", "replace").decode("utf-8")


def _message(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise TypeError(f"{_shown(value)}; expected a string that describes the fault")
    return _text(value)


def _layers(value: Any) -> tuple[str, ...]:
    expected = f"{_shown(value)}; expected a tuple of names, such as ('head.weight',)"
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise TypeError(expected)
    names = tuple(value)
    if not all(isinstance(name, str) for name in names):
        raise TypeError(expected)
    return tuple(map(_text, names))


def _advice(value: Any) -> tuple[str | int, ...]:
    """Return fixes; a number is the position of a bullet of `What to do`."""
    expected = f"{_shown(value)}; expected a tuple of sentences, such as ('Shuffle the data.',)"
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise TypeError(expected)
    return tuple(_text(one) if isinstance(one, str) else _whole(one) for one in value)


def _workers(value: Any) -> tuple[int, ...]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise TypeError(f"{_shown(value)}; expected a tuple of ranks, such as (0, 1)")
    return tuple(map(_whole, value))


def _evidence(value: Any) -> dict[str, EvidenceValue]:
    if not isinstance(value, dict):
        raise TypeError(f"{_shown(value)}; expected a dict of numbers and strings by name")
    return {_text(key): _plain(one) for key, one in value.items()}


def _plain(value: Any) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, str):
        return _text(value)
    whole = isinstance(value, int) and abs(value) < LARGEST
    if value is None or isinstance(value, float) or whole:
        return value
    raise TypeError(f"{_shown(value)}; expected numbers, strings, or lists of them")


def _mode(value: Any) -> str:
    try:
        return Mode(value).value
    except ValueError:
        raise TypeError(f"{_shown(value)}; expected 'train', 'eval' or 'predict'") from None


_FIELDS: dict[str, Callable[[Any], Any]] = {
    "step": _whole,
    "message": _message,
    "severity": lambda value: None if value is None else severity_of(value),
    "layers": _layers,
    "evidence": _evidence,
    "location": lambda value: None if value is None else _text(value),
    "count": _whole,
    "last_step": _last_step,
    "confidence": _text,
    "mode": _mode,
    "fixes": lambda value: None if value is None else _advice(value),
    "title": _text,
    "why": lambda value: None if value is None else _text(value),
    "workers": lambda value: None if value is None else _workers(value),
}
"""Fields of a finding; each function checks a value and returns it as stored."""
