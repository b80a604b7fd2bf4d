"""Parameters of an experiment as flat names with plain values, from any kind of object."""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Iterator, Mapping
from pathlib import PurePath

import numpy as np

from mothtrap.core.ledger import LedgerValue
from mothtrap.core.masking import MASKED, names_secret, without_secrets
from mothtrap.core.texts import storable

MAX_NAMES = 2_000
"""Maximum number of names in one set of parameters; chosen by hand: ten times as many as a trainer
has.
"""
MAX_CHARACTERS = 500
"""Maximum length of a name or text; chosen by hand: a longer text is data, not a parameter."""
MAX_DEPTH = 8
LISTED = 32
"""Number of list values that are kept as one text; a longer list is truncated."""


def flat(values: object) -> tuple[dict[str, LedgerValue], int]:
    """Return the parameters in an object, by dotted name, and the number of parameters left out.

    Mappings, dataclasses and objects such as `argparse.Namespace` are expanded. Other objects are
    represented by the name of their class, without calling their code.

    Args:
        values: a mapping, a dataclass, or an object with attributes.
    """
    found: dict[str, LedgerValue] = {}
    left_out = 0
    for name, value in _items(values, "", 0, set()):
        if len(found) >= MAX_NAMES:
            left_out += 1
            continue
        name = storable(name[:MAX_CHARACTERS])
        found[name] = _masked(name, value)
    return found, left_out


def fields_of(value: object) -> Mapping[str, object] | None:
    """Return the named fields of an object with parameters; None for other objects."""
    if isinstance(value, Mapping):
        return {str(key): part for key, part in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = (field.name for field in dataclasses.fields(value))
        return {name: value.__dict__[name] for name in names if name in _attributes(value)}
    if type(value).__name__.endswith("Namespace"):
        return {k: v for k, v in _attributes(value).items() if not k.startswith("_")}
    return None


def _attributes(value: object) -> Mapping[str, object]:
    try:
        held = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return held if isinstance(held, dict) else {}


def _items(
    value: object, name: str, depth: int, above: set[int]
) -> Iterator[tuple[str, LedgerValue]]:
    fields = fields_of(value)
    if fields is None or depth >= MAX_DEPTH or id(value) in above:
        yield name or "value", plain(value)
        return
    for key, part in fields.items():
        yield from _items(part, f"{name}.{key}" if name else key, depth + 1, {*above, id(value)})


def plain(value: object) -> LedgerValue:
    """Return a value that can be stored: the value, a text for a list, or the name of its type."""
    if isinstance(value, enum.Enum):
        return plain(value.value) if isinstance(value.value, str | int) else value.name
    if value is None or isinstance(value, bool | int):
        return value if not isinstance(value, int) or abs(value) < 2**63 else str(value)[:50]
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, str):
        return storable(without_secrets(value[:MAX_CHARACTERS]))
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, PurePath):
        return plain(str(value))
    if isinstance(value, list | tuple | set | frozenset) and type(value).__module__ == "builtins":
        return _listed(list(value))
    if isinstance(value, Mapping):
        return f"{{{len(value)} entries}}"
    kind = value if isinstance(value, type) else type(value)
    if kind.__name__ in ("dtype", "device"):  # these are objects of a framework with short texts
        return str(value)[:MAX_CHARACTERS]
    named = value if isinstance(value, type) or hasattr(value, "__qualname__") else kind
    return f"<{getattr(named, '__module__', '')}.{getattr(named, '__qualname__', '')}>"


def _listed(values: list[object]) -> str:
    parts = [plain(part) for part in values[:LISTED]]
    text = ", ".join(part if isinstance(part, str) else str(part) for part in parts)
    more = len(values) - len(parts)
    return f"[{text}{f', and {more} more' if more > 0 else ''}]"[:MAX_CHARACTERS]


def _masked(name: str, value: LedgerValue) -> LedgerValue:
    if not isinstance(value, str) or not value:
        return value
    return MASKED if names_secret(name) else value
