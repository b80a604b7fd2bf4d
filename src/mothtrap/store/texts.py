"""Text as it is stored: valid UTF-8, whatever the names of a program hold."""

from __future__ import annotations

import msgspec

from mothtrap.core import jsonable


def storable(text: str) -> str:
    """Return `text`, with lone surrogates escaped: UTF-8 cannot hold them."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode()
    return text


def json_text(value: object) -> str:
    """Return a struct or plain value as JSON text that can be stored."""
    try:
        return jsonable.encode(value).decode()
    except UnicodeEncodeError:
        return jsonable.encode(_storable(msgspec.to_builtins(value))).decode()


def _storable(value: object) -> object:
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, dict):
        return {storable(str(key)): _storable(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_storable(part) for part in value]
    return value
