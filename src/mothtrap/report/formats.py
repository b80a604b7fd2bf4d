"""Formats of reports, by name and by the name of a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePath

from mothtrap.core import jsonable
from mothtrap.core.documented import Documented
from mothtrap.core.errors import ConfigError
from mothtrap.report import github, html, junit, markdown, sarif
from mothtrap.report.document import Document

FORMATS = ("html", "markdown", "sarif", "junit", "github", "json")
_SUFFIXES = {
    ".html": "html",
    ".htm": "html",
    ".md": "markdown",
    ".sarif": "sarif",
    ".xml": "junit",
    ".json": "json",
}


def form_of(file: str | None) -> str:
    """Return the format implied by a file name.

    Raises:
        ConfigError: the name implies no format.
    """
    if file in (None, "-"):
        return "html"
    name = PurePath(str(file)).name.lower()
    if name.endswith(".sarif.json"):
        return "sarif"
    suffix = PurePath(name).suffix
    if suffix not in _SUFFIXES:
        raise ConfigError(
            f"cannot infer the format from the name {name!r}; use one of the suffixes "
            f"{', '.join(_SUFFIXES)}, or pass --format"
        )
    return _SUFFIXES[suffix]


def written(document: Document, form: str, rules: Sequence[type[Documented]]) -> str:
    """Render a document in a format."""
    if form == "json":
        return jsonable.shown(document.summary).decode() + "\n"
    if form == "sarif":
        return sarif.page(document, rules)
    pages = {
        "html": html.page,
        "markdown": markdown.page,
        "junit": junit.page,
        "github": github.page,
    }
    return pages[form](document)


def write(path: Path, text: str) -> None:
    """Write a report to a file, escaping lone surrogates as in file names.

    Raises:
        OSError: the folder cannot be written.
    """
    path.write_text(text, encoding="utf-8", errors="backslashreplace")
