"""Figures as separate documents, in a sandbox: no origin, no network, no page around them.

A figure is code of the script that logged it, or of whoever sent the run. Its document may run
scripts, but has no origin, so that it can neither read the page nor load data. Its policy cannot
prevent a script from navigating to another address. The document around it does: the page, or the
frame that is sent if a figure is opened alone.
"""

from __future__ import annotations

import base64
import hashlib
import html
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from mothtrap.core.errors import MothtrapError, QueryError
from mothtrap.core.png import SIGNATURE
from mothtrap.reader import vega
from mothtrap.reader.record.items import Item, read_bytes

if TYPE_CHECKING:
    from mothtrap.web.opened import OpenRun

SANDBOX = "; ".join(
    (
        "sandbox allow-scripts",
        "default-src 'none'",
        "script-src 'unsafe-inline' 'unsafe-eval'",
        "style-src 'unsafe-inline'",
        "img-src data: blob:",
        "font-src data:",
        "media-src data: blob:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'self'",
    )
)
"""Policy of a figure's document."""
_STYLE = "html,body{margin:0;background:#fff;color:#1d1c1a;font:15px/1.45 system-ui,sans-serif}"
_PICTURE = "img{max-width:100%;display:block;margin:auto}p{margin:1em}"
_FRAME_STYLE = "html,body,iframe{margin:0;width:100%;height:100%;border:0;display:block}"
_HEIGHT = """<script>
const tell = () => parent.postMessage({ height: document.documentElement.offsetHeight }, "*");
addEventListener("load", tell); addEventListener("resize", tell);</script>"""
"""Script that reports the height of a picture to the page around it."""
_ALONE = """<script>for (const name of ["RTCPeerConnection", "webkitRTCPeerConnection"]) {
  try { delete window[name]; } catch { window[name] = undefined; } }</script>"""
"""Closes the only access to the network that the policies of browsers do not cover."""


class Document(NamedTuple):
    """A document and its policy."""

    data: bytes
    policy: str


def frame(number: int, run: str) -> Document:
    """Return a document that contains only the sandboxed figure."""
    digest = base64.b64encode(hashlib.sha256(_FRAME_STYLE.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; frame-src 'self'; style-src 'sha256-{digest}'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'"
    )
    address = html.escape(f"./{number}?run={quote(run, safe='')}&inside=1")
    text = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Figure</title>'
        f"<style>{_FRAME_STYLE}</style></head><body>"
        f'<iframe title="Figure" sandbox="allow-scripts" src="{address}"></iframe></body></html>'
    )
    return Document(text.encode(), policy)


class Figure(NamedTuple):
    """A stored figure: its file, and the file of the program that draws it."""

    item: Item
    data: bytes
    library: bytes


def read(opened: OpenRun, item: Item) -> Figure:
    """Read a figure.

    Raises:
        QueryError: the item is no figure.
        DamagedDataError: its file cannot be read.
    """
    if item.kind != "figure":
        raise QueryError(f"{item.name!r} is a {item.kind}, not a figure")
    library = read_bytes(opened.path, item, library=True) if item.library else b""
    return Figure(item, read_bytes(opened.path, item), library)


def document(figure: Figure) -> Document:
    """Return a figure as a sandboxed document, which explains any error."""
    item, data = figure.item, figure.data
    form = str(item.about.get("format", ""))
    if form in ("html", "bokeh"):
        return Document(_ALONE.encode() + data, SANDBOX)
    if form == "plotly":
        return Document(_plotly(data, figure.library), SANDBOX)
    if form == "png" and data.startswith(SIGNATURE):
        return _picture(data, "png", item)
    if form == "vega-lite":
        try:
            return _picture(vega.draw(data), "svg+xml", item)
        except MothtrapError as err:
            return _said(str(err))
    return _said(f"a figure of the format {form!r} cannot be shown")


def _picture(data: bytes, kind: str, item: Item) -> Document:
    text = base64.b64encode(data).decode()
    source = f"data:image/{kind};base64,{text}"
    return _page(f'<img alt="{html.escape(item.name)}" src="{source}">{_HEIGHT}')


def _said(text: str) -> Document:
    return _page(f"<p>{html.escape(text)}</p>")


def _page(body: str) -> Document:
    text = f'<!doctype html><meta charset="utf-8"><style>{_STYLE}{_PICTURE}</style>{body}'
    return Document(text.encode(), SANDBOX)


def _plotly(figure: bytes, library: bytes) -> bytes:
    """Return a document that draws a figure; its JSON is a text of the program."""
    literal = base64.b64encode(figure).decode()
    start = (
        f'<script>const bytes = Uint8Array.from(atob("{literal}"), (c) => c.charCodeAt(0));'
        "const figure = JSON.parse(new TextDecoder().decode(bytes));"
        'Plotly.newPlot("figure", figure.data, figure.layout,'
        " {responsive: true, displaylogo: false, showSendToCloud: false});</script>"
    )
    head = f'<!doctype html><meta charset="utf-8">{_ALONE}<style>{_STYLE}#figure{{height:100vh}}'
    return (
        f'{head}</style><div id="figure"></div><script>'.encode()
        + library
        + b"</script>"
        + start.encode()
    )
