"""A run as the reader opens it, made by hand."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from mothtrap.core.fact import Fact
from mothtrap.core.facts.captures import Blind, ToolError
from mothtrap.core.findings import Finding, RuleState, Severity
from mothtrap.core.probed import Probed
from mothtrap.core.replays import StoredReplay
from mothtrap.core.runs import Overhead, RuleStatus, RunEnd, RunInfo, RunKind
from mothtrap.core.served import Served

FactT = TypeVar("FactT", bound=Fact)
COST = Overhead(ratio=0.013, seconds=0.52, added_seconds=1.2, wall_seconds=40.0)


@dataclass(frozen=True, kw_only=True)
class HandMadeRun:
    """The part of `reader.run.Run` that a summary reads."""

    path: Path = Path("runs/x")
    id: str = "x"
    attempts: int = 1
    state: str = "finished"
    kind: RunKind = RunKind.TRAIN
    workers: tuple[int, ...] = (0,)
    steps: int = 120
    info: RunInfo | None = None
    end: RunEnd | None = None
    findings: tuple[Finding, ...] = ()
    rules: tuple[RuleStatus, ...] = ()
    blind: tuple[Blind, ...] = ()
    tool_errors: tuple[ToolError, ...] = ()
    dropped: int = 0
    overhead: Overhead = COST
    damage: tuple[str, ...] = ()
    observed: tuple[Fact, ...] = ()
    stopped_at: int | None = None
    stop_reason: str | None = None
    replay: StoredReplay | None = None
    probed: Probed | None = None
    served: Served | None = None
    unevaluated: str = ""

    def damage_within(self, limit_bytes: int) -> tuple[str, ...]:
        """The damage, whatever the limit."""
        return self.damage

    def source_texts(self) -> dict[str, str]:
        """Files of the script; the run has stored none."""
        return {}

    def parts(self) -> tuple[()]:
        """Parts of the run on the disk; there are none."""
        return ()

    def observations(self, kind: type[FactT]) -> tuple[FactT, ...]:
        """The observations of one type."""
        return tuple(o for o in self.observed if isinstance(o, kind))


def exploding(**changes: object) -> Finding:
    """An error with all fields set."""
    values: dict[str, object] = {
        "code": "GRD101",
        "name": "exploding_gradient",
        "severity": Severity.ERROR,
        "step": 71,
        "detected_step": 73,
        "layers": ("blocks.1.attn.q", "blocks.1.attn.k"),
        "count": 41,
        "last_step": 112,
        "message": "gradient norm 3.1e+04 is 410x its median over 500 steps (limit 100x)",
        "evidence": {"value": float("nan")},
        "why": "Weights are thrown far off.",
        "fixes": ("clip_grad_norm_(params, 1.0)", "peak lr <= 1e-3"),
        "location": "model.py:88",
        "fingerprint": "aaaa",
    }
    return Finding(**(values | changes))  # type: ignore[arg-type]


def rule(code: str, name: str, state: RuleState, reason: str = "") -> RuleStatus:
    """Return the status of one rule."""
    return RuleStatus(code=code, name=name, state=state, reason=reason)
