"""Facts about checks that run before a training run."""

from __future__ import annotations

from typing import Literal

import msgspec

from mothtrap.core.asked_samples import Asked
from mothtrap.core.contracts import Entry
from mothtrap.core.fact import Fact
from mothtrap.core.findings import Finding

State = Literal["done", "not_enough_data", "not_applicable", "failed"]


class LayerRow(msgspec.Struct, frozen=True, kw_only=True):
    """One layer in the table of layers, or a stage of the data before and after the layers.

    Attributes:
        part: `layer`, `data` for a data set, `input` for an input of the model, or `loss`.
        name: path of the layer in the model.
        kind: class of the layer.
        output: shape of its first output, with the batch dimension; empty if it was not called.
        parameters: number of its parameters, without the parameters of its sublayers.
        trained: True if its parameters require a gradient.
        gradient: `none`, `zero`, or `some`, as observed; empty without parameters.
        multiplications: number of multiplications for the batch; 0 if unknown.
    """

    name: str
    kind: str
    part: Literal["layer", "data", "input", "loss"] = "layer"
    output: tuple[int, ...] = ()
    parameters: int = 0
    trained: bool = False
    gradient: str = ""
    multiplications: int = 0


class CheckResult(Fact, frozen=True, kw_only=True, tag=True):
    """Result of one check.

    Attributes:
        code: code of the check.
        state: `done` if the check could decide; otherwise the reason is in `reason`.
        reason: one sentence; empty if `done`.
        passed: short result of a passed check ("rows are independent"); empty if the check reported
            a finding.
        found: findings of the check.
        figures: measured numbers by name, shown with the result.
        layers: the table of layers; empty for all checks except PRE501.
        learned: layers or inputs found by the check, for a file of invariants.
        asked: samples for a person to predict; they are not stored in the run.
        seconds: duration of the check in seconds.
    """

    code: str
    state: State = "done"
    reason: str = ""
    passed: str = ""
    found: tuple[Finding, ...] = ()
    figures: dict[str, float] = {}
    layers: tuple[LayerRow, ...] = ()
    learned: tuple[Entry, ...] = ()
    asked: tuple[Asked, ...] = ()
    seconds: float = 0.0
