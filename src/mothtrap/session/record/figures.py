"""Figures of plotting libraries as files that a browser shows without network access."""

from __future__ import annotations

import hashlib
import io
import json
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

from mothtrap.core import jsonable
from mothtrap.core.texts import storable_value

DPI = 150


class Drawn(NamedTuple):
    """A figure as a file: content, suffix, format, and a program that draws it.

    `form` is `png`, `vega-lite`, `plotly`, `bokeh` or `html`; `library` is the source of a
    JavaScript library, "" if the file needs no library.
    """

    data: bytes
    suffix: str
    form: str
    library: str = ""


def drawn(figure: Any) -> Drawn:
    """Convert a figure to a file.

    Args:
        figure: figure of matplotlib, Altair, Plotly or Bokeh, a Vega-Lite specification, or HTML.

    Raises:
        TypeError: it is not a supported figure.
        Exception: any exception that the library raises.
    """
    if isinstance(figure, str):
        return Drawn(figure.encode("utf-8", "backslashreplace"), ".html", "html")
    if isinstance(figure, Mapping):
        return _vega(figure)
    library = type(figure).__module__.partition(".")[0]
    bases = {base.__module__.partition(".")[0] for base in type(figure).__mro__}
    if "matplotlib" in bases or library == "seaborn":
        return _matplotlib(figure)
    if "plotly" in bases:
        return _plotly(figure)
    if "bokeh" in bases:
        return _bokeh(figure)
    if "altair" in bases:
        return _vega(figure.to_dict())
    raise TypeError(
        f"a {type(figure).__qualname__} is not a figure; expected one of matplotlib, Altair, "
        "Plotly, or Bokeh, a Vega-Lite specification, or HTML"
    )


def _matplotlib(figure: Any) -> Drawn:
    figure = getattr(figure, "figure", figure)  # figure of axes, and of seaborn grids
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=DPI)
    return Drawn(out.getvalue(), ".png", "png")


def _vega(specification: Mapping[str, Any]) -> Drawn:
    text = json.dumps(storable_value(dict(specification)), default=str)
    return Drawn(text.encode(), ".json", "vega-lite")


def _plotly(figure: Any) -> Drawn:
    offline: Any = sys.modules.get("plotly.offline")
    if offline is None:
        import importlib

        offline = importlib.import_module("plotly.offline")
    library = offline.get_plotlyjs()
    return Drawn(figure.to_json().encode(), ".json", "plotly", library)


def _bokeh(figure: Any) -> Drawn:
    import importlib

    embed = importlib.import_module("bokeh.embed")
    resources = importlib.import_module("bokeh.resources")
    return Drawn(embed.file_html(figure, resources.INLINE, "").encode(), ".html", "bokeh")


def library_name(text: str) -> str:
    """Return the file name of a program, which figures share if they need the same program."""
    return f"library-{hashlib.sha256(text.encode()).hexdigest()[:16]}.js"


def encoded(value: object) -> bytes:
    """Encode a table or similar data as JSON."""
    return jsonable.encode(value)
