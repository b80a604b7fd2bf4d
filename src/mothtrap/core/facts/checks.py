"""Facts about checks that are made before a training run."""

from __future__ import annotations

from typing import Literal

import msgspec

from mothtrap.core.fact import Fact
from mothtrap.core.findings import Finding

State = Literal["done", "not_enough_data", "not_applicable", "failed"]


class LayerRow(msgspec.Struct, frozen=True, kw_only=True):
    """A layer in the table of layers.

    Attributes:
        name: path in the model.
        kind: its class.
        output: shape of its first output, with the batch; empty if it was not called.
        parameters: own ones, without those of layers inside.
        trained: its parameters require a gradient.
        gradient: `none`, `zero`, or `some`, as the watched steps gave it; empty without parameters.
        multiplications: for the batch; 0 if not known.
    """

    name: str
    kind: str
    output: tuple[int, ...] = ()
    parameters: int = 0
    trained: bool = False
    gradient: str = ""
    multiplications: int = 0


class CheckResult(Fact, frozen=True, kw_only=True, tag=True):
    """Result of one check.

    Attributes:
        code: of the check.
        state: `done` where the check could decide; the others say in `reason` why it could not.
        reason: one sentence; empty if `done`.
        passed: what the check proved, in a few words ("rows are independent"); empty where
            something was found.
        found: the faults.
        figures: numbers by name that are shown with the result.
        layers: the table of layers, of the check that makes it.
        seconds: duration of the check.
    """

    code: str
    state: State = "done"
    reason: str = ""
    passed: str = ""
    found: tuple[Finding, ...] = ()
    figures: dict[str, float] = {}
    layers: tuple[LayerRow, ...] = ()
    seconds: float = 0.0
