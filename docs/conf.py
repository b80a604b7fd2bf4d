"""Settings of Sphinx for the site: `make site`."""

from __future__ import annotations

import re
from importlib.metadata import version as installed_version

project = "mothtrap"
author = copyright = "The mothtrap authors"  # noqa: A001  # Sphinx's name
version = release = installed_version("mothtrap")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
html_extra_path = ["llms.txt"]
html_theme = "furo"
html_title = f"mothtrap {release}"
html_show_copyright = False

myst_enable_extensions = ["fieldlist"]
myst_heading_anchors = 3
# Examples of JSON leave values out, and examples of programs may be parts of programs.
suppress_warnings = ["misc.highlighting_failure"]

autodoc_default_options = {"members": True, "member-order": "bysource"}
autodoc_typehints = "description"
autodoc_typehints_format = "short"
autodoc_class_signature = "separated"
napoleon_numpy_docstring = False
napoleon_use_ivar = True


def _as_restructured_text(
    _app: object, what: str, _name: str, _obj: object, _options: object, lines: list[str]
) -> None:
    """Docstrings mark code as Markdown does; those of modules are for readers of the source."""
    text = "" if what == "module" else "\n".join(lines)
    if what == "property":  # napoleon takes what stands before a colon in its first line for a type
        text = "\n" + text
    lines[:] = re.sub(r"(?<!`)`([^`]+)`(?!`)", r"``\1``", text).split("\n")


def setup(app: object) -> None:
    """Hook into Sphinx; before napoleon, which would take `kind:name` for a type."""
    app.connect("autodoc-process-docstring", _as_restructured_text, priority=100)  # type: ignore[attr-defined]
