"""HTML for notebooks: plain tables without scripts, with all text escaped.

Texts of a run come from programs that may be hostile: each text is escaped and truncated, and its
control characters are shown as escapes.
"""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Iterable, Mapping, Sequence

MAX_CHARS = 300
"""Length above which a text is truncated; chosen by hand: a few lines of a notebook."""
MAX_ROWS = 50


def safe(text: object) -> str:
    r"""Escape a text for HTML, with control characters shown as `\x1b` and so on."""
    whole = str(text)
    cut = whole[:MAX_CHARS] + ("…" if len(whole) > MAX_CHARS else "")
    return html.escape("".join(_visible(char) for char in cut))


def heading(text: object) -> str:
    """Return a heading as HTML."""
    return f"<h4>{safe(text)}</h4>"


def pairs(rows: Mapping[str, object]) -> str:
    """Return names and values as an HTML table."""
    cells = (
        f"<tr><th>{safe(name)}</th><td>{safe(value)}</td></tr>" for name, value in rows.items()
    )
    return f"<table>{''.join(cells)}</table>"


def grid(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table with a header: the first rows, and the number of rows left out."""
    every = list(rows)
    head = "".join(f"<th>{safe(name)}</th>" for name in columns)
    body = "".join(
        f"<tr>{''.join(f'<td>{safe(cell)}</td>' for cell in row)}</tr>" for row in every[:MAX_ROWS]
    )
    more = f"<p>and {len(every) - MAX_ROWS} more</p>" if len(every) > MAX_ROWS else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _visible(char: str) -> str:
    # Cc, Cf, Cs: control characters, characters that change the direction of text, lone surrogates.
    if unicodedata.category(char) in ("Cc", "Cf", "Cs"):
        return char.encode("unicode_escape").decode()
    return char
