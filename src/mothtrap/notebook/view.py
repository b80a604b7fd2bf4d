"""The report of a run in a frame of a notebook."""

from __future__ import annotations

import html

from mothtrap.core.installed_rules import explains
from mothtrap.reader.run import Run
from mothtrap.report.document import gather
from mothtrap.report.html import page
from mothtrap.report.summary import summarize


class View:
    """The report of a run, as a page in a frame; the page runs no script.

    Args:
        text: the page.
        height: height of the frame, in pixels.
    """

    def __init__(self, text: str, height: int) -> None:
        self._text, self._height = text, height

    def _repr_html_(self) -> str:
        return (
            f'<iframe sandbox="" title="report of a run" srcdoc="{html.escape(self._text)}" '
            f'style="width: 100%; height: {self._height}px; border: 1px solid #d9d5cd"></iframe>'
        )


def show(run: Run, height: int) -> View:
    """Return the report of a run for display in a notebook."""
    return View(page(gather(run, summarize(run, explains()))), height)
