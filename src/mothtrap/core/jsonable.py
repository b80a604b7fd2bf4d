"""JSON in which NaN and infinities are strings, never null."""

from __future__ import annotations

import json
import math
import re
import threading
from typing import Annotated, Any, TypeVar

import msgspec

from mothtrap.core.masking import shareable
from mothtrap.core.texts import storable_value

T = TypeVar("T")
UnixTime = Annotated[float, msgspec.Meta(ge=0, le=1e11)]
"""Seconds since 1970; a time after about the year 5000 counts as damaged data."""

_DEEP = frozenset({float, dict, list, tuple})
"""Types whose values may be, or contain, a number that is not finite."""

_decoders: dict[object, msgspec.json.Decoder[Any]] = {}
_building = threading.Lock()
_INVISIBLE = re.compile(
    "[\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)


def _truthful(value: object) -> object:
    """Return plain data (the result of `msgspec.to_builtins`) with names for NaN and infinities."""
    if type(value) is float:
        if math.isfinite(value):
            return value
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if type(value) is dict:
        return {k: _truthful(v) if type(v) in _DEEP else v for k, v in value.items()}
    if type(value) is list or type(value) is tuple:
        kinds = set(map(type, value))
        if kinds.isdisjoint(_DEEP) or (kinds == {float} and math.isfinite(sum(value))):
            return value
        return [_truthful(item) if type(item) in _DEEP else item for item in value]
    return value


def encode(value: object) -> bytes:
    """Encode a value (including structs) as JSON, escaping lone surrogates as in file names."""
    try:
        line = msgspec.json.encode(value)
    except UnicodeEncodeError:
        value = storable_value(msgspec.to_builtins(value))
        line = msgspec.json.encode(value)
    # msgspec writes null for a number that is not finite. Without a null, all numbers are finite.
    return msgspec.json.encode(_truthful(msgspec.to_builtins(value))) if b"null" in line else line


def shown(value: object) -> bytes:
    r"""Encode a value for people and other tools, without secrets or invisible characters.

    Control characters and characters that change the text direction are written as escapes such
    as `\\u202e`. The value stays the same, and the text cannot control a terminal or mislead.
    """
    line = encode(shareable(value))
    if line.isascii() and b"\x7f" not in line:  # the encoder escapes other control characters
        return line
    return _INVISIBLE.sub(lambda found: json.dumps(found[0])[1:-1], line.decode()).encode()


def text(value: object) -> str:
    """Encode a value (including structs) as one line of JSON."""
    return encode(value).decode()


def decode(data: bytes | str, kind: type[T]) -> T:
    """Decode the output of `encode`; numbers stored as strings become numbers again.

    Raises:
        msgspec.DecodeError: the text is not JSON, or nested deeper than any encoded value.
        msgspec.ValidationError: the JSON does not fit `kind`.
    """
    try:
        return decoder(kind).decode(data)
    except RecursionError as err:
        raise msgspec.DecodeError("JSON is nested too deeply") from err


def decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    """Return the cached decoder of a type.

    msgspec caches information on each class. Two threads that use a class for the first time at
    once crash the process (msgspec 0.21 and 0.22), so decoders are created under a lock.
    """
    found = _decoders.get(kind)
    if found is None:
        with _building:
            found = _decoders.setdefault(kind, msgspec.json.Decoder(kind, strict=False))
    return found
