"""Kinds of logged items other than numbers, their file formats, and their limits."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from mothtrap.core.ledger import LedgerValue

FOLDER: Final = "record"
KINDS: Final = ("text", "table", "image", "artifact", "predictions", "figure")
SUFFIXES: Final = (".txt", ".json", ".png", ".svg", ".html", ".js", ".bin")
FILE: Final = re.compile(r"[0-9]{6}\.(?:txt|json|png|svg|html|bin)|library-[0-9a-f]{16}\.js")
"""Pattern of stored file names: numbers, so that a name chosen by the script never becomes a path.
"""
MAX_ITEMS: Final = 2_000
"""Maximum number of items that one worker logs; chosen by hand."""
MAX_TOTAL_BYTES: Final = 1 << 30
"""Maximum size of all files of one worker; chosen by hand."""
MAX_BYTES: Final = {
    "text": 1 << 20,
    "table": 8 << 20,
    "image": 16 << 20,
    "artifact": 256 << 20,
    "predictions": 4 << 20,
    "figure": 16 << 20,
}
"""Maximum size of one item, by kind; chosen by hand: no browser opens a figure of 200 MB."""
MAX_ROWS: Final = 10_000
MAX_COLUMNS: Final = 200
MAX_CELL: Final = 1_000
MAX_SIDE: Final = 8_192
"""Maximum side length of an image, in pixels."""
MAX_NAME: Final = 200


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of plain values; `row_count` and `column_count` describe the logged table."""

    columns: list[str]
    rows: list[list[LedgerValue]]
    row_count: int
    column_count: int


class Curve(msgspec.Struct, frozen=True, kw_only=True):
    """A curve of one class: x and y by threshold, the highest threshold first."""

    label: str
    area: float
    x: list[float]
    y: list[float]


class Predictions(msgspec.Struct, frozen=True, kw_only=True):
    """Confusion matrix (rows: true class, columns: predicted class) and curves of a classifier.

    `roc` contains pairs of false and true positive rate, `precision_recall` pairs of recall and
    precision. The areas are AUC and average precision.
    """

    classes: list[str]
    confusion: list[list[int]]
    count: int
    accuracy: float
    roc: list[Curve] = []
    precision_recall: list[Curve] = []
    left_out: str = ""
