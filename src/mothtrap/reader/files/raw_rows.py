"""Index entries of whole tensors."""

from __future__ import annotations

from mothtrap.reader.files.committed_rows import Piece
from mothtrap.reader.files.worker_view import WorkerView
from mothtrap.store.raw_reading import RawRow

_NUMBERS = ("tensor", "segment", "offset", "size", "checksum")


def index_row(view: WorkerView, commit: int, piece: Piece, row: int) -> RawRow:
    """Return the index entry of a copy of a tensor.

    Args:
        view: view of the worker that wrote the copy.
        commit: record of the copy, as a row of `view.commits`.
        piece: piece of `view.raw()`.
        row: row in the piece.
    """
    batch, commits = piece.batch, view.commits
    return RawRow(
        record=int(commits.records[commit]),
        key=commits.key(commit),
        dtype=batch.column("dtype")[row].as_py(),
        shape=tuple(batch.column("shape")[row].as_py()),
        **{name: int(piece.column(name)[row]) for name in _NUMBERS},
    )
