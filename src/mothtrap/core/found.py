"""A fault that a rule reports."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Literal, TypedDict, Unpack

from mothtrap.core.fact import Fact
from mothtrap.core.findings import EvidenceValue, Severity

SeverityName = Severity | Literal["error", "warning", "info"]


class FoundFields(TypedDict, total=False):
    """Fields of a `Found` that `Found.of` accepts."""

    step: int
    severity: SeverityName | None
    layers: tuple[str, ...]
    evidence: dict[str, EvidenceValue]
    location: str | None
    count: int
    last_step: int | None
    confidence: str
    mode: str
    fixes: tuple[str | int, ...] | None
    title: str
    why: str | None
    workers: tuple[int, ...] | None
    library: str | None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """Fault that a rule reports.

    Attributes:
        step: first step with the fault.
        message: what is wrong, where, and by how much.
        severity: by default the severity of the rule.
        layers: module paths or tensor names, the most affected first.
        evidence: numbers that show the fault, by name.
        location: the `file:line` to change.
        count: number of captured steps with the fault.
        last_step: last captured step with the fault, by default `step`.
        confidence: `high`, `medium` or `low`.
        mode: mode of the step.
        fixes: advice for this case: sentences, or positions of bullets of `What to do`, from 0.
            Bullets for other frameworks are left out. By default all bullets.
        title: name of the fault in this case, by default the title of the rule.
        why: reason why the fault matters, by default the docstring's.
        workers: ranks with the fault, by default the rank of the window.
        library: adapter whose bullets of `What to do` apply, by default all adapters of the run.
    """

    step: int
    message: str
    severity: SeverityName | None = None
    layers: tuple[str, ...] = ()
    evidence: dict[str, EvidenceValue] = dataclasses.field(default_factory=dict)
    location: str | None = None
    count: int = 1
    last_step: int | None = None
    confidence: str = "high"
    mode: str = "train"
    fixes: tuple[str | int, ...] | None = None
    title: str = ""
    why: str | None = None
    workers: tuple[int, ...] | None = None
    library: str | None = None

    @classmethod
    def of(cls, facts: Fact | Sequence[Fact], message: str, **more: Unpack[FoundFields]) -> Found:
        """Create a `Found` from the facts that show the fault.

        `step` and `location` are those of the first fact, and `last_step` is the step of the last
        fact. `count` is the number of different steps. `layers` are the names in the fields
        `layer` and `layers`, each once. A fact without such a field adds nothing.

        Args:
            facts: a fact, or facts from the oldest to the newest.
            message: what is wrong, where, and by how much.
            more: fields that replace these values, and other fields.
        """
        every = (facts,) if isinstance(facts, Fact) else tuple(facts)
        layers = [getattr(one, "layers", ()) or (getattr(one, "layer", ""),) for one in every]
        fields: FoundFields = {
            "step": every[0].step,
            "last_step": every[-1].step,
            "count": len({one.step for one in every}),
            "location": getattr(every[0], "location", None),
            "layers": tuple(dict.fromkeys(name for names in layers for name in names if name)),
        }
        fields.update(more)
        return cls(message=message, **fields)
