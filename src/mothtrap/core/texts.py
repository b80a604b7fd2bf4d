"""Text as it is stored: valid UTF-8, whatever the names of a program hold."""

from __future__ import annotations


def storable(text: str) -> str:
    """Return `text`, with lone surrogates escaped: UTF-8 cannot hold them."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode()
    return text


def storable_value(value: object) -> object:
    """Return a plain value (texts, numbers, lists, tables) with every text made storable."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, dict):
        return {storable(str(key)): storable_value(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [storable_value(part) for part in value]
    return value
