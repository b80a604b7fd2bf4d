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
        return jsonable.encode(storable_value(msgspec.to_builtins(value))).decode()


def storable_value(value: object) -> object:
    """Return a plain value (texts, numbers, lists, tables) with every text made storable."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, dict):
        return {storable(str(key)): storable_value(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [storable_value(part) for part in value]
    return value
