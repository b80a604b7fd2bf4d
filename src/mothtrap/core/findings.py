"""Findings of rules, and the severity of a finding."""

from __future__ import annotations

import enum
import hashlib

import msgspec
import numpy as np

from mothtrap.core import probed, served
from mothtrap.core.display import grid, heading, pairs


class Severity(enum.StrEnum):
    """`error`: training is broken or will be; `warning`: probably harmful; `info`: a note."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"

    @property
    def rank(self) -> int:
        """Position in order of severity; 0 is `error`."""
        return list(Severity).index(self)


class RuleState(enum.StrEnum):
    """State of a rule in a run."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"
    NOT_ENOUGH_DATA = "not_enough_data"
    NOT_APPLICABLE = "not_applicable"
    RULE_FAILED = "rule_failed"


PASSED = "passed_at_step"
"""Evidence of a finding that its rule no longer reports."""

UNDONE = "undone_at_step"
"""Evidence of a finding whose harm the script has undone: its severity may fall."""

LATEST_ONSET = "onset_at_latest"
"""Evidence of a finding that began between `step` and this step; no step in between was checked."""

ASSERTION = "assertion"
"""Key of the evidence with the name of the assertion that predictions violate."""

EvidenceValue = float | int | str | bool | list[float | int | str] | None


BOOSTING_FAMILY = "TRE"
"""Prefix of the codes of rules on boosted trees."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Fault found by a rule, with its onset, its evidence, and advice.

    `step` is the onset: the first captured step with the fault. `detected_step` is the step at
    which the rule reported it. `count` is the number of captured steps with the fault, up to
    `last_step`. `title` is the name of the fault to show; if it is empty, `name` is shown.
    `layers` are module paths or tensor names, the most affected first. `location` is the
    `file:line` to change.
    """

    code: str
    name: str
    title: str = ""
    severity: Severity
    step: int
    detected_step: int
    mode: str = "train"
    layers: tuple[str, ...] = ()
    workers: tuple[int, ...] = (0,)
    count: int = 1
    last_step: int = -1
    message: str
    evidence: dict[str, EvidenceValue] = {}
    why: str = ""
    fixes: tuple[str, ...] = ()
    confidence: str = "high"
    location: str | None = None
    fingerprint: str = ""
    causes: tuple[str, ...] = ()
    caused_by: tuple[str, ...] = ()

    @property
    def has_step(self) -> bool:
        """True if the finding belongs to a training step; False for a probe or a served model."""
        return self.mode not in (probed.MODE, served.MODE)

    @property
    def unit(self) -> str:
        """The word for a step of this finding: `round` for boosted trees."""
        return "round" if self.code.startswith(BOOSTING_FAMILY) else "step"

    @property
    def began(self) -> str:
        """The onset in words, such as `step 12`, or `step 12 to 20` if only a range is known."""
        end = f" to {self.latest_onset:,}" if self.latest_onset > self.step else ""
        return f"{self.unit} {self.step:,}{end}"

    @property
    def latest_onset(self) -> int:
        """The last step at which the fault may have begun; `step` if the onset is known."""
        latest = self.evidence.get(LATEST_ONSET)
        return latest if isinstance(latest, int) and latest > self.step else self.step

    @property
    def is_assertion(self) -> bool:
        """True if predictions broke an assertion of the user; no rule has its code."""
        return ASSERTION in self.evidence

    def _repr_html_(self) -> str:
        rows: dict[str, object] = {
            "severity": self.severity,
            "since": self.began if self.has_step else "",
            "layers": ", ".join(self.layers),
            "what": self.message,
            "where": self.location or "",
            "why": self.why,
            "fix": "; ".join(self.fixes),
        }
        said = pairs({name: value for name, value in rows.items() if value != ""})
        return heading(f"{self.code} {self.name}") + said + pairs(self.evidence)


class Findings(tuple[Finding, ...]):
    """Findings of a run, which a notebook shows as a table."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        if not self:
            return "<p>No findings.</p>"
        rows = [(f.severity, f.code, f.name, f.began, ", ".join(f.layers), f.message) for f in self]
        return grid(("severity", "code", "name", "since", "layers", "message"), rows)


def fingerprint(code: str, layers: tuple[str, ...], mode: str) -> str:
    """Return the identity of a finding that survives a rerun: code, first layer, mode."""
    text = "\0".join((code, layers[0] if layers else "", mode))
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def plain(value: EvidenceValue) -> EvidenceValue:
    """Return a number as a plain Python number, because NumPy numbers cannot be stored."""
    found: EvidenceValue = value.item() if isinstance(value, np.generic) else value
    return found


def has_passed(finding: Finding) -> bool:
    """Return whether the rule of a finding was evaluated later without finding it again."""
    return finding.severity is Severity.INFO and PASSED in finding.evidence
