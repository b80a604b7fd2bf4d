"""Facts for the record of an experiment: what a script logs beside numbers and tensors."""

from __future__ import annotations

from mothtrap.core.fact import Fact
from mothtrap.core.ledger import LedgerValue


class ParametersLogged(Fact, frozen=True, kw_only=True, tag=True):
    """Parameters that a script has logged; a later value of a name counts.

    `source` is `script`, or the logger that they were given to. `left_out` of them were too many.
    """

    values: dict[str, LedgerValue]
    source: str = "script"
    left_out: int = 0


class ItemLogged(Fact, frozen=True, kw_only=True, tag=True):
    """Something that a script has logged: a text, table, image, file, figure, or predictions.

    `kind` is one of `core.record_items.KINDS`; `file` is its file in the worker's folder `record`,
    "" where only its digest is kept. `size_bytes` and `digest` (SHA-256) are those of what was
    logged. `about` is what can be said of it in short: rows, width, path, accuracy ...
    `library` is the file of a program that draws the figure.
    """

    name: str
    kind: str
    file: str = ""
    size_bytes: int = 0
    digest: str = ""
    about: dict[str, LedgerValue] = {}
    library: str = ""
    time_s: float = 0.0


class CheckpointSaved(Fact, frozen=True, kw_only=True, tag=True):
    """A file with all weights of a model that is trained, as it was written.

    `step` counts the steps that the weights have taken. `path` is "" where an open file was
    written. `elements` are the values in all tensors of the file.
    """

    path: str = ""
    elements: int = 0
    location: str | None = None
