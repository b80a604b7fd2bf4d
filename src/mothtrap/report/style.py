"""Style of text on one stream: color, glyphs, and names made safe to print."""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TextIO

from mothtrap.core.findings import RuleState, Severity
from mothtrap.core.masking import without_secrets
from mothtrap.core.texts import printable

SEVERITY_GLYPHS = {Severity.ERROR: "✖", Severity.WARNING: "▲", Severity.INFO: "●"}
STATE_GLYPHS = {
    RuleState.ERROR: "✖",
    RuleState.WARNING: "▲",
    RuleState.OK: "✔",
    RuleState.NOT_ENOUGH_DATA: "○",
    RuleState.NOT_APPLICABLE: "–",
    RuleState.RULE_FAILED: "‼",
}
"""Signs of the states of rules in reports and on the page."""
SEVERITY_WORDS = {Severity.ERROR: "x", Severity.WARNING: "!", Severity.INFO: "i"}
SEVERITY_COLORS = {
    Severity.ERROR: "bold red",
    Severity.WARNING: "bold yellow",
    Severity.INFO: "bold blue",
}
STATE_COLORS = {
    RuleState.OK: "green",
    RuleState.WARNING: "yellow",
    RuleState.ERROR: "red",
    RuleState.RULE_FAILED: "magenta",
}
# Beyond ASCII, every sign that our own sentences may contain.
ASCII_SIGNS = str.maketrans(
    {"✖": "x", "▲": "!", "●": "i", "✔": "+", "…": "...", "→": "->", "·": ";"}
)
WIDTH = 80
"""Columns of text that is printed; the usual width of a terminal."""
_PAINT = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """Capabilities of a stream; the default is plain ASCII, which every stream can show."""

    color: bool = False
    glyphs: bool = False

    @classmethod
    def of(cls, stream: TextIO, environ: Mapping[str, str] | None = None) -> Style:
        """Detect the capabilities of a stream.

        NO_COLOR turns color off and FORCE_COLOR turns it on, if not empty; by default, only
        terminals get color. Glyphs need an encoding that contains them.
        """
        environ = os.environ if environ is None else environ
        try:
            terminal = stream.isatty()
        except ValueError:  # a closed stream
            terminal = False
        dumb = environ.get("TERM") == "dumb"
        color = bool(environ.get("FORCE_COLOR")) or (terminal and not dumb)
        if environ.get("NO_COLOR"):
            color = False
        return cls(color=color, glyphs=_can_encode(stream.encoding))

    def glyph(self, severity: Severity) -> str:
        """The symbol of a severity; symbols differ in shape, so color is never needed."""
        words = SEVERITY_GLYPHS if self.glyphs else SEVERITY_WORDS
        return self.paint(words[severity], SEVERITY_COLORS[severity])

    def paint(self, text: str, color: str) -> str:
        """Color a text if the stream supports color; `color` is a rich style."""
        if not self.color or not text:
            return text
        # Imported here: plain streams, the usual case inside a job, must not pay for rich.
        from rich.color import ColorSystem
        from rich.style import Style as RichStyle

        return RichStyle.parse(color).render(text, color_system=ColorSystem.STANDARD)

    def safe(self, text: str) -> str:
        """Make a text of the run printable, without secrets, and in ASCII if necessary."""
        text = printable(without_secrets(text))
        if self.glyphs:
            return text
        return text.translate(ASCII_SIGNS).encode("ascii", "backslashreplace").decode()


PLAIN = Style()


def _can_encode(encoding: str | None) -> bool:
    try:
        "".join(SEVERITY_GLYPHS.values()).encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def wrapped(text: str, *, indent: str = "") -> list[str]:
    """Wrap a text to lines of at most `WIDTH` columns; longer words get a separate line.

    Args:
        text: one line; a colored text is not changed.
        indent: prefix of each line except the first.
    """
    if _PAINT.search(text):
        return [text]
    begin = text[: len(text) - len(text.lstrip())]
    return textwrap.wrap(
        text.lstrip(),
        WIDTH,
        initial_indent=begin,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def count_of(count: int, noun: str) -> str:
    """Return a number with its noun: `1 step`, `1,200 steps`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def ranges(numbers: Iterable[int]) -> str:
    """Whole numbers in few words.

    Example:
        >>> ranges((0, 1, 2, 5))
        '0-2, 5'
    """
    parts: list[list[int]] = []
    for number in sorted(set(numbers)):
        if parts and number == parts[-1][-1] + 1:
            parts[-1] = [parts[-1][0], number]
        else:
            parts.append([number])
    return ", ".join("-".join(map(str, part)) for part in parts)
