"""Facts for the record of an experiment: parameters, items, and checkpoints of a script."""

from __future__ import annotations

from mothtrap.core.fact import Fact
from mothtrap.core.ledger import LedgerValue


class ParametersLogged(Fact, frozen=True, kw_only=True, tag=True):
    """Parameters that a script logged; the last value of a name counts.

    `source` is `script`, or the logger that received them. `left_out` is the number of parameters
    beyond the limit.
    """

    values: dict[str, LedgerValue]
    source: str = "script"
    left_out: int = 0


class ItemLogged(Fact, frozen=True, kw_only=True, tag=True):
    """Text, table, image, file, figure, or predictions that a script logged.

    `kind` is one of `core.record_items.KINDS`. `file` is its file in the worker's folder `record`;
    "" if only its digest is stored. `size_bytes` and `digest` (SHA-256) belong to the logged item.
    `about` has short facts: rows, width, path, accuracy ... `library` is the file of the
    JavaScript library that draws the figure.
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
    """File with all weights of the trained model, recorded when it is written.

    `step` is the number of steps that the weights were trained for. `path` is "" if an open file
    was passed. `elements` is the number of values in all tensors of the file.
    """

    path: str = ""
    elements: int = 0
    location: str | None = None
