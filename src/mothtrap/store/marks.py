"""Marks that people put on findings, under `RUN/marks/`."""

from __future__ import annotations

from pathlib import Path

from mothtrap.core.marks import Mark
from mothtrap.store.remarks import put_remark, read_remarks

FOLDER = "marks"


def put_mark(run: Path, mark: Mark) -> Path:
    """Store a mark in a run; raises the same errors as `put_remark`."""
    return put_remark(run, FOLDER, mark)


def read_marks(run: Path) -> dict[str, Mark]:
    """Return the latest mark of each fingerprint."""
    return {mark.fingerprint: mark for mark in read_remarks(run, FOLDER, Mark)}
