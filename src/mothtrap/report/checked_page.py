"""Results of `mothtrap check` as a part of the HTML report: proofs, path of the data, layers."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence

from mothtrap.core.facts.checks import CheckResult, LayerRow
from mothtrap.report.checks import passed_lines, undecided_lines
from mothtrap.report.layer_table import as_svg, table_of

MAX_DRAWN = 100
"""Layers of a model that is drawn; a picture of more is too long to read. Chosen by hand."""
MAX_LISTED = 1000
"""Layers that are listed; chosen by hand."""


def section(results: Sequence[CheckResult], names: Mapping[str, str]) -> str:
    """Return the results of the checks of a run as HTML; "" for a run without checks.

    Args:
        results: results of the checks.
        names: names of checks, by their code.
    """
    if not results:
        return ""
    layers = next((result.layers for result in results if result.layers), ())
    proved = _list(passed_lines(results)) or "<p>None.</p>"
    undecided = undecided_lines(results, names)
    return (
        f"<h2>Checks</h2><h3>Passed</h3>{proved}"
        + (f"<h3>Not decided</h3>{_list(undecided)}" if undecided else "")
        + (_layers(layers) if layers else "")
    )


def _list(texts: Sequence[str]) -> str:
    lines = "".join(f"<li>{html.escape(text)}</li>" for text in texts)
    return f"<ul>{lines}</ul>" if texts else ""


def _layers(rows: Sequence[LayerRow]) -> str:
    head, *lines = table_of(rows[:MAX_LISTED])
    more = len(rows) - MAX_LISTED
    picture = f"<figure>{as_svg(rows)}</figure>" if len(rows) <= MAX_DRAWN else ""
    return (
        f"<h2>Layers</h2>{picture}<table><thead><tr>{_cells(head, 'th')}</tr></thead><tbody>"
        + "".join(f"<tr>{_cells(line, 'td')}</tr>" for line in lines)
        + "</tbody></table>"
        + (f'<p class="soft">… and {more:,} more layers.</p>' if more > 0 else "")
    )


def _cells(texts: Iterable[str], tag: str) -> str:
    return "".join(f"<{tag}>{html.escape(text)}</{tag}>" for text in texts)
