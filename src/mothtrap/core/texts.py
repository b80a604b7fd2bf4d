"""Text for storage and display: valid UTF-8, and numbers without exponents."""

from __future__ import annotations

import re
import unicodedata

import numpy as np
import numpy.typing as npt

_RATIO = re.compile(r"(?<![\w.])(\d(?:\.\d+)?e\+0[2-5])(?=x| ms\b| s\b| MiB\b| %|%)")
_PERCENT = re.compile(r"(?<![\w.])(\d[\d.,]*)%(?![\w%])")
_ONE = re.compile(
    r"(?<![\d.,])1 (more |other |)(step|layer|module|parameter|tensor|gradient|weight|evaluation"
    r"|example|sample|row|label|token|unit|head|look|loss|batch)(e?s)\b"
)


def readable(message: str) -> str:
    """Return a message with numbers written out, `50 %` for `50%`, and singular forms corrected.

    Example:
        >>> readable("1.2e+03x within 1 steps, 50% in steps of 2.7e+02 ms")
        '1,200x within 1 step, 50 % in steps of 270 ms'
    """
    message = _RATIO.sub(lambda found: f"{float(found[1]):,.0f}", message)
    message = _PERCENT.sub(r"\1 %", message)
    return _ONE.sub(lambda found: f"1 {found[1]}{found[2]}", message)


def printable(text: str) -> str:
    r"""Escape characters in a text of a run that could control a terminal.

    Control characters, including newlines, and characters that reorder text are written as escapes;
    a tab becomes a space.

    Example:
        >>> printable("a" + chr(27) + "[2Jb")
        'a\\x1b[2Jb'
    """
    if text.isprintable():
        return text
    return "".join(_escaped(character) for character in text)


def _escaped(character: str) -> str:
    if character == "\t":
        return " "
    if character.isprintable() or unicodedata.category(character) == "Zs":
        return character
    return character.encode("unicode_escape").decode()


def storable(text: str) -> str:
    """Return `text` with lone surrogates escaped, because UTF-8 cannot store them."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode()
    return text


def storable_value(value: object) -> object:
    """Return a plain value (texts, numbers, lists, tables) in which every text is storable."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, dict):
        return {storable(str(key)): storable_value(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [storable_value(part) for part in value]
    return value


def layer_in_words(path: str) -> str:
    """Return the path of a layer for use in a sentence: `layer 0.2` if it has no name."""
    return f"layer {path}" if path.replace(".", "").isdigit() else path


def steps_in_words(steps: npt.NDArray[np.int64]) -> str:
    """Return the number of some ascending steps, with the first and the last."""
    if not len(steps):
        return "no steps"
    count = "1 step" if len(steps) == 1 else f"{len(steps)} steps"
    return f"{count} from {steps[0]} to {steps[-1]}"


def ends_of(values: npt.NDArray[np.float64], most: int = 3) -> str:
    """Return the first and the last of some values, after a colon; "" without values."""
    shown = [f"{value:.4g}" for value in values[:most]]
    if len(values) > 2 * most:
        shown.append("...")
    shown += [f"{value:.4g}" for value in values[max(most, len(values) - most) :]]
    return ": " + ", ".join(shown) if shown else ""
