"""The table of layers that a check made, as text, JSON, or a picture."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path

import msgspec

from mothtrap.core.errors import MothtrapError
from mothtrap.core.facts.checks import LayerRow

HEAD = ("stage", "layer", "type", "output", "parameters", "trained", "gradient", "multiplications")
BOX, GAP, WIDTH = 34, 14, 560
"""Height of a box, gap between boxes, and width of the picture, in pixels."""
COLORS = {"none": "#c0392b", "zero": "#d68910"}
"""Border of a layer whose parameters get no gradient, or only zeros."""


def write(rows: Sequence[LayerRow], file: str) -> None:
    """Write the table to a file in the format of its extension.

    Raises:
        MothtrapError: the extension is not .txt, .json, or .svg.
        OSError: the file cannot be written.
    """
    Path(file).write_text(form_of(file)(rows), encoding="utf-8")


def form_of(file: str) -> Callable[[Sequence[LayerRow]], str]:
    """Return the function that renders the table for a file.

    Raises:
        MothtrapError: the extension is not .txt, .json, or .svg.
    """
    ending = Path(file).suffix.lower()
    if ending not in FORMS:
        raise MothtrapError(f"--layers: expected a file that ends in {', '.join(FORMS)}: {file}")
    return FORMS[ending]


def table_of(rows: Sequence[LayerRow]) -> list[tuple[str, ...]]:
    """Return the cells of the table, with the header as the first row."""
    return [HEAD, *map(_cells, rows)]


def boxes_of(rows: Sequence[LayerRow]) -> list[tuple[str, str, str]]:
    """Return the title, description, and gradient (`none`, `zero`, or empty) of each stage."""
    return [(*_box(row)[:2], row.gradient if row.gradient in COLORS else "") for row in rows]


def as_text(rows: Sequence[LayerRow]) -> str:
    """Return the table with aligned columns, and a line with totals."""
    cells = table_of(rows)
    widths = [max(len(line[n]) for line in cells) for n in range(len(HEAD))]
    lines = [
        "  ".join(f"{text:<{w}}" for text, w in zip(line, widths, strict=True)) for line in cells
    ]
    count = sum(row.part == "layer" for row in rows)
    total = sum(row.parameters for row in rows)
    trained = sum(row.parameters for row in rows if row.trained)
    return "\n".join(line.rstrip() for line in lines) + (
        f"\n{count} layers, {total:,} parameters, {trained:,} of them trained\n"
    )


def as_json(rows: Sequence[LayerRow]) -> str:
    """Return a list with one object per layer."""
    return json.dumps([msgspec.to_builtins(row) for row in rows], indent=1) + "\n"


def as_svg(rows: Sequence[LayerRow]) -> str:
    """Return an image of the stages of the data, from the datasets to the loss."""
    boxes = [*map(_box, rows)]
    if all(row.part == "layer" for row in rows):
        boxes = [("input", "", ""), *boxes, ("loss", "", "")]
    height = len(boxes) * (BOX + GAP) + GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="#ffffff"/>',
    ]
    for place, (title, about, color) in enumerate(boxes):
        top = GAP + place * (BOX + GAP)
        if place:
            parts.append(
                f'<line x1="{WIDTH // 2}" y1="{top - GAP}" x2="{WIDTH // 2}" y2="{top}" '
                'stroke="#777777"/>'
            )
        parts.append(
            f'<rect x="20" y="{top}" width="{WIDTH - 40}" height="{BOX}" rx="4" fill="#f4f6f8" '
            f'stroke="{color or "#777777"}"/>'
            f'<text x="30" y="{top + 21}" fill="#111111">{escape(title)}</text>'
            f'<text x="{WIDTH - 30}" y="{top + 21}" text-anchor="end" fill="#444444">'
            f"{escape(about)}</text>"
        )
    return "\n".join([*parts, "</svg>"]) + "\n"


def _box(row: LayerRow) -> tuple[str, str, str]:
    if row.part == "data":
        return f"{row.kind} ({row.name})", f"{row.output[0]:,} rows" if row.output else "", ""
    if row.part in ("input", "loss"):
        return f"{row.part} {row.name}", " · ".join(filter(None, (row.kind, _shape(row)))), ""
    about = [_shape(row)] if row.output else []
    if row.parameters:
        about.append(f"{row.parameters:,} parameters" + ("" if row.trained else ", frozen"))
    if row.gradient in COLORS:
        about.append("no gradient" if row.gradient == "none" else "gradient 0")
    return f"{row.name} ({row.kind})", " · ".join(about), COLORS.get(row.gradient, "")


def _cells(row: LayerRow) -> tuple[str, ...]:
    return (
        row.part,
        row.name,
        row.kind,
        _shape(row) or ("not called" if row.part == "layer" else ""),
        f"{row.parameters:,}" if row.part == "layer" else "",
        ("yes" if row.trained else "no") if row.parameters else "",
        row.gradient,
        f"{row.multiplications:,}" if row.multiplications else "",
    )


def _shape(row: LayerRow) -> str:
    return " x ".join(map(str, row.output))


FORMS: dict[str, Callable[[Sequence[LayerRow]], str]] = {
    ".txt": as_text,
    ".json": as_json,
    ".svg": as_svg,
}
