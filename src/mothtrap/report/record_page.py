"""The record of a run as a part of the HTML report: answers, tables, pictures; no script."""

from __future__ import annotations

import base64
import html
from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from mothtrap.core.errors import MothtrapError
from mothtrap.core.extras import install_command
from mothtrap.core.ledger import LedgerValue
from mothtrap.core.masking import without_secrets
from mothtrap.core.png import SIGNATURE
from mothtrap.core.record_items import Curve, Predictions
from mothtrap.reader import vega
from mothtrap.reader.record.items import Item, read_bytes, read_predictions, read_table
from mothtrap.report.record import RunRecord, answers, value_text

if TYPE_CHECKING:
    from mothtrap.reader.run import Run

MAX_PICTURES = 24
MAX_PICTURE_BYTES = 2 << 20
"""Bytes of all pictures of a report; chosen by hand: less than half of its limit."""
MAX_ROWS = 50
MAX_COLUMNS = 12
MAX_ITEMS = 60
MAX_CLASSES = 20
MAX_CHARACTERS = 2_000
SIDE = 220
"""Pixels of a curve's picture along a side."""


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """The record as HTML; `light` has no images."""

    whole: str
    light: str


def section(run: Run, told: RunRecord) -> Section:
    """Return the record of a run as HTML, followed by the logged items."""
    rows = _rows(answers(told, everything=True).items())
    begin = f'<h2>Record</h2><table class="record">{rows}</table>'
    newest: dict[tuple[str, str], Item] = {(i.kind, i.name): i for i in told.record.items}
    parts, light, left, pictures = [], [], MAX_PICTURE_BYTES, 0
    for item in [*newest.values()][:MAX_ITEMS]:
        try:
            text, is_picture = _item(run, item, left if pictures < MAX_PICTURES else 0)
        except (MothtrapError, OSError) as err:
            text, is_picture = f'<p class="soft">Not shown: {_safe(str(err))}</p>', False
        whole = f'<h3 class="logged">{_safe(item.name)}</h3>{_about(item)}{text}'
        parts.append(whole)
        if is_picture:
            pictures, left = pictures + 1, left - len(text)
            whole = f'<h3 class="logged">{_safe(item.name)}</h3>{_about(item)}{LEFT_OUT}'
        light.append(whole)
    more = len(newest) - MAX_ITEMS
    end = f'<p class="soft">… and {more} more.</p>' if more > 0 else ""
    return Section(whole=begin + "".join(parts) + end, light=begin + "".join(light) + end)


LEFT_OUT = (
    '<p class="soft">The image is omitted because of its size; <code>mothtrap ui</code> '
    "shows it.</p>"
)


def _about(item: Item) -> str:
    facts = ", ".join(f"{name} {_text(value)}" for name, value in item.about.items())
    digest = f", SHA-256 {item.digest[:16]}…" if item.kind == "artifact" else ""
    size = f", {item.size_bytes:,} bytes" if item.kind == "artifact" else ""
    return f'<p class="soft">{item.kind}, step {item.step:,}; {_safe(facts)}{size}{digest}</p>'


def _item(run: Run, item: Item, left: int) -> tuple[str, bool]:
    """Return an item as HTML, and whether it is a picture."""
    if item.kind == "table":
        table = read_table(run.path, item)
        return _grid(table.columns, table.rows, table.row_count), False
    if item.kind == "text":
        text = read_bytes(run.path, item).decode("utf-8", "replace")
        return f"<pre>{_safe(text)}</pre>", False
    if item.kind == "predictions":
        return predictions_html(read_predictions(run.path, item)), False
    form = "png" if item.kind == "image" else str(item.about.get("format", ""))
    if form == "png":
        return _picture(read_bytes(run.path, item), "png", item, left)
    if form == "vega-lite":
        if not vega.can_draw():
            command = _safe(install_command("plot"))
            return f'<p class="soft">To draw it: <code>{command}</code></p>', False
        return _picture(vega.draw(read_bytes(run.path, item)), "svg+xml", item, left)
    if item.kind == "figure":
        return '<p class="soft">Interactive: <code>mothtrap ui</code> shows it.</p>', False
    return "", False


def _picture(data: bytes, kind: str, item: Item, left: int) -> tuple[str, bool]:
    if kind == "png" and not data.startswith(SIGNATURE):
        return '<p class="soft">Not shown: it is not a PNG file.</p>', False
    text = base64.b64encode(data).decode()
    if len(text) > left:
        return LEFT_OUT, False
    small = ' class="picture"' if kind == "png" and item.kind == "image" else ""
    return f'<img{small} alt="{_safe(item.name)}" src="data:image/{kind};base64,{text}">', True


def predictions_html(found: Predictions) -> str:
    """Return the confusion matrix and curves as HTML."""
    parts = []
    if len(found.classes) <= MAX_CLASSES:
        head = "".join(f"<th>{_safe(name)}</th>" for name in found.classes)
        rows = "".join(
            f"<tr><th>{_safe(name)}</th>{''.join(f'<td>{n:,}</td>' for n in row)}</tr>"
            for name, row in zip(found.classes, found.confusion, strict=False)
        )
        parts.append(f"<table><tr><th>true \\ predicted</th>{head}</tr>{rows}</table>")
    else:
        wrong = [
            (count, found.classes[i], found.classes[j])
            for i, row in enumerate(found.confusion)
            for j, count in enumerate(row)
            if i != j and count
        ]
        wrong.sort(reverse=True)
        worst: list[list[LedgerValue]] = [[i, j, count] for count, i, j in wrong[:MAX_ROWS]]
        parts.append(_grid(["true", "predicted", "examples"], worst, len(wrong)))
    parts.append(_curves("ROC", "false positive rate", "true positive rate", found.roc))
    parts.append(_curves("precision and recall", "recall", "precision", found.precision_recall))
    return "".join(parts)


def _curves(title: str, x: str, y: str, curves: list[Curve]) -> str:
    if not curves:
        return ""
    lines = "".join(
        f'<polyline class="line s{n % 4}" points="'
        + " ".join(
            f"{30 + (SIDE - 40) * _share(a):.1f},{10 + (SIDE - 40) * (1 - _share(b)):.1f}"
            for a, b in zip(curve.x, curve.y, strict=False)
        )
        + '"/>'
        for n, curve in enumerate(curves)
    )
    areas = ", ".join(f"{curve.label} {curve.area:.4g}" for curve in curves)
    size, end = SIDE - 40, SIDE - 30
    return (
        f'<figure><svg class="curve" viewBox="0 0 {SIDE} {SIDE}" role="img" '
        f'aria-label="{_safe(title)}: area {_safe(areas)}">'
        f'<path class="grid" fill="none" d="M30 10V{end}H{30 + size}"/>{lines}'
        f'<text class="tick" x="30" y="{SIDE - 10}">{x}</text>'
        f'<text class="tick" x="18" y="{end}" transform="rotate(-90 18 {end})">{y}</text>'
        f'</svg><figcaption class="soft">{title}, area: {_safe(areas)}</figcaption></figure>'
    )


def _share(value: float) -> float:
    return min(1.0, max(0.0, value)) if value == value else 0.0


def _grid(columns: list[str], rows: Iterable[list[LedgerValue]], count: int) -> str:
    shown = list(rows)[:MAX_ROWS]
    head = "".join(f"<th>{_safe(name)}</th>" for name in columns[:MAX_COLUMNS])
    body = "".join(
        f"<tr>{''.join(f'<td>{_safe(_text(cell))}</td>' for cell in row[:MAX_COLUMNS])}</tr>"
        for row in shown
    )
    more = (
        f'<p class="soft">… and {count - len(shown):,} more rows</p>' if count > len(shown) else ""
    )
    more += f'<p class="soft">… and {len(columns) - MAX_COLUMNS} more columns</p>' * (
        len(columns) > MAX_COLUMNS
    )
    return f"<table><tr>{head}</tr>{body}</table>{more}"


def _rows(pairs: Iterable[tuple[str, str]]) -> str:
    return "".join(f"<tr><th>{_safe(n)}</th><td>{_safe(v)}</td></tr>" for n, v in pairs)


def _text(value: LedgerValue) -> str:
    return "" if value is None else value_text(value)


def _safe(text: str) -> str:
    text = without_secrets(text)
    cut = text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}…"
    return html.escape("".join(c if c.isprintable() or c == "\n" else "\ufffd" for c in cut))
