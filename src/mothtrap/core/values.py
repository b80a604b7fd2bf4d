"""Conversion of plain values to a struct of settings; an invalid value is named in words."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterable, Mapping
from typing import Literal, TypeVar

import msgspec

from mothtrap.core.errors import ConfigError, nearest

S = TypeVar("S", bound=msgspec.Struct)

WORDS: dict[object, str] = {
    float: "a number",
    int: "a whole number",
    str: "a string",
    bool: "true or false",
    tuple[str, ...]: "a list of strings",
    tuple[int, ...]: "a list of whole numbers",
    tuple[dict[str, typing.Any], ...]: "a list of tables",
}


def to_struct(values: Mapping[str, object], kind: type[S], where: str) -> S:
    """Create a struct from plain values; numbers may be texts (`"0.02"`).

    Args:
        values: values by field; tables are mappings or structs, lists are sequences, sets, ranges
            or NumPy arrays.
        kind: the struct, of texts, numbers, literals, lists, tables and further structs.
        where: source of the values, e.g. a file; "" if it is obvious.

    Raises:
        ConfigError: a value is invalid; the message gives the key, the value, and the allowed
            values.
    """
    # A struct created in Python is checked, too: its constructor does not check types.
    plain = {key: _plain(value) for key, value in values.items()}
    try:
        return msgspec.convert(plain, type=kind, strict=False)
    except msgspec.ValidationError as err:
        raise fault(where, _misfit(kind, plain, "", None) or str(err)) from err


def fault(where: str, complaint: str) -> ConfigError:
    """Return an error with `complaint` about the source `where`."""
    return ConfigError(f"{where}: {complaint}" if where else complaint)


def unknown_key(key: str, known: Iterable[str], table: str = "") -> str:
    """Return a message about an unknown key in a table (dotted; "" = the top level)."""
    names = sorted(known)
    name = key.rpartition(".")[2]
    whole = f"{table}.{name}" if table else name
    return f"unknown key {whole!r}{nearest(name, names)}; known keys: {', '.join(names)}"


def _plain(value: object) -> object:
    """Return a value without structs (only their non-default fields), ranges, and arrays."""
    if isinstance(value, msgspec.Struct):
        fields = msgspec.structs.fields(value)
        held = {f.name: getattr(value, f.name) for f in fields}
        return {f.name: _plain(held[f.name]) for f in fields if held[f.name] is not f.default}
    if isinstance(value, Mapping):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple | set | frozenset | range):
        return [_plain(part) for part in value]
    tolist = getattr(value, "tolist", None)  # numbers and arrays of numpy
    return _plain(tolist()) if callable(tolist) and not isinstance(value, type) else value


def _misfit(kind: object, value: object, key: str, default: object) -> str | None:
    """Return an error message for `value` at the dotted `key`; None if it is valid."""
    if value is None and type(None) in typing.get_args(kind):
        return None
    kind = _given(kind)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return _misfit_in_struct(kind, value, key)
    if origin is dict:
        if not isinstance(value, Mapping):
            return f"{key} must be a table, not {value!r}"
        if unnamed := [name for name in value if not isinstance(name, str)]:
            return f"{key} must have strings as keys, not {unnamed[0]!r}"
        within = (_misfit(arguments[1], v, f"{key}.{k}", None) for k, v in value.items())
        return next(filter(None, within), None)
    if origin is Literal:
        if value in arguments:
            return None
        hint = nearest(str(value), arguments)
        return f"{key} cannot be {value!r}{hint}; expected one of: {', '.join(arguments)}"
    closed = bool(arguments) and typing.get_origin(arguments[0]) is Literal
    if origin is tuple and closed and isinstance(value, list | tuple):
        parts = (_misfit(arguments[0], part, key, None) for part in value)
        return next(filter(None, parts), None)
    try:
        msgspec.convert(value, type=kind, strict=False)
    except msgspec.ValidationError:
        example = f" such as {default!r}" if default else ""
        wanted = "a list of strings" if closed else WORDS.get(kind)
        wanted = wanted or ", ".join(WORDS[part] for part in arguments)
        return f"{key} must be {wanted}{example}, not {value!r}"
    return None


def _given(kind: object) -> object:
    """Return a type without None, which represents a missing value."""
    if typing.get_origin(kind) is not types.UnionType:
        return kind
    parts = [part for part in typing.get_args(kind) if part is not type(None)]
    return parts[0] if len(parts) == 1 else kind


def _misfit_in_struct(kind: type[msgspec.Struct], value: object, key: str) -> str | None:
    if isinstance(value, kind):
        return None
    if not isinstance(value, Mapping):
        return f"{key} must be a table, not {value!r}"
    hints = typing.get_type_hints(kind)
    for field in msgspec.structs.fields(kind):
        if field.required and field.name not in value:
            wanted = WORDS.get(hints[field.name])
            return f"{key} lacks the key {field.name!r}, {wanted or 'which has no default'}"
    defaults = {f.name: f.default for f in msgspec.structs.fields(kind) if not f.required}
    for name, inner in value.items():
        if name not in hints:
            return unknown_key(name, hints, key)
        dotted = f"{key}.{name}" if key else name
        default = defaults.get(name)
        shown = default if isinstance(default, float | int | str) else None
        complaint = _misfit(hints[name], inner, dotted, shown)
        if complaint:
            return complaint
    return None
