"""Findings are the same wherever rules are evaluated: programs of the fault bench, in five ways."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from tests.harness.running import MOTHTRAP, environment, run

import mothtrap
from mothtrap.core.findings import Finding, Severity

CASES = Path(__file__).parents[3] / "bench" / "faultbench" / "cases"
FAULTY = sorted(p.stem for p in CASES.glob("[a-z]*.py") if not p.stem.startswith("healthy"))
HEALTHY = sorted(p.stem for p in CASES.glob("healthy*.py"))
Faults = set[tuple[str, str, tuple[str, ...]]]


def faults(findings: Iterable[Finding]) -> Faults:
    """Return kinds and places of faults; steps and counts depend on the evaluated windows."""
    return {
        (f.code, f.severity.value, tuple(sorted(f.layers)[:1]))
        for f in findings
        if f.severity is not Severity.INFO
    }


def ran(name: str, folder: Path, *options: str) -> mothtrap.Run:
    run_name = "-".join(["run", *options]).replace("--", "")
    done = run(
        [*MOTHTRAP, "run", "--name", run_name, *options, CASES / f"{name}.py", "--seed", "0"],
        cwd=folder,
        env=environment(MOTHTRAP_OVERHEAD="0"),
    )
    assert done.returncode == 0, done.stderr
    return mothtrap.open_run(folder / "runs" / run_name)


@pytest.mark.full
@pytest.mark.parametrize("name", [*FAULTY, *HEALTHY])
def test_findings_are_the_same_everywhere(name: str, tmp_path: Path) -> None:
    inline = faults(ran(name, tmp_path).findings)
    captured = ran(name, tmp_path, "--no-rules")
    assert not captured.findings
    (serial,) = mothtrap.analyze(captured)
    (pool,) = mothtrap.analyze(captured, "processes", workers=1)
    assert serial.findings == pool.findings
    assert serial.rules == pool.rules
    followed = run([*MOTHTRAP, "monitor", captured.path], cwd=tmp_path, env=environment())
    assert followed.returncode == 0, followed.stderr
    beside = mothtrap.open_run(captured.path)
    assert faults(beside.findings) == faults(serial.findings) == inline
    assert {f.step for f in beside.findings} == {f.step for f in serial.findings}
    assert bool(inline) is (name in FAULTY)
