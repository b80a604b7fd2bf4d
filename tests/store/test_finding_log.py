from __future__ import annotations

from pathlib import Path

from mothtrap.core.findings import Finding, RuleState, Severity
from mothtrap.core.runs import RuleStatus
from mothtrap.store.finding_log import FindingLog, FindingReader


def finding(code: str = "GRD101", **changes: object) -> Finding:
    values: dict[str, object] = {
        "code": code,
        "name": "exploding_gradient",
        "severity": Severity.ERROR,
        "step": 3,
        "detected_step": 4,
        "message": "gradient norm 3.1e+04",
        "fingerprint": code.lower(),
    }
    return Finding(**(values | changes))  # type: ignore[arg-type]


def test_all_revisions_come_back_in_order(tmp_path: Path) -> None:
    log, reader = FindingLog(tmp_path / "m0"), FindingReader(tmp_path / "m0")
    status = RuleStatus(code="GRD101", name="exploding_gradient", state=RuleState.ERROR)
    log.append([finding(count=1)], [])
    assert reader.poll() == 1
    log.append([finding(count=2)], [status])
    log.close()
    assert reader.poll() == 2
    assert reader.findings == [finding(count=1), finding(count=2)]
    assert reader.statuses == [status]
    assert reader.poll() == 0
    assert reader.damage(ended=True) == ()


def test_infinite_evidence_stays_a_number(tmp_path: Path) -> None:
    log, reader = FindingLog(tmp_path / "m0"), FindingReader(tmp_path / "m0")
    item = finding(evidence={"value": float("inf"), "all": [1.0, -float("inf")], "what": "nan"})
    log.append([item])
    reader.poll()
    assert reader.findings == [item]


def test_a_damaged_finding_is_reported(tmp_path: Path) -> None:
    FindingLog(tmp_path / "m0").append([finding()])
    path = tmp_path / "m0" / "findings-00000000.arrow"
    data = bytearray(path.read_bytes())
    data[data.index(b"gradient norm")] ^= 4
    path.write_bytes(data)
    reader = FindingReader(tmp_path / "m0")
    reader.poll()
    assert reader.findings == []
    assert reader.damage(ended=True)
