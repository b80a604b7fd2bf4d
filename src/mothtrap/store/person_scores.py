"""Scores of people, under `RUN/people/`."""

from __future__ import annotations

from pathlib import Path

from mothtrap.core.asked_samples import PersonScore
from mothtrap.store.remarks import put_remark, read_remarks

FOLDER = "people"


def put_score(run: Path, score: PersonScore) -> Path:
    """Store a person's score in a run; raises the same errors as `put_remark`."""
    return put_remark(run, FOLDER, score)


def read_score(run: Path) -> PersonScore | None:
    """Return the latest score of a person; None if no score is stored."""
    return next(reversed(read_remarks(run, FOLDER, PersonScore)), None)
