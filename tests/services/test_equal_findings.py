"""Findings of all programs of the fault bench are the same in every engine.

Each program is run once. Its run is then evaluated in this process, in a pool of processes, on
local clusters of Dask and Ray, and by `mothtrap monitor`, and compared with what the job found.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.harness.running import MOTHTRAP, environment, run

import mothtrap
from mothtrap.core.findings import Finding, Severity
from mothtrap.monitor.catalogue import rule_classes
from mothtrap.monitor.stored.unit import StoredVerdict

BENCH = Path(__file__).parents[2] / "bench" / "faultbench"
FOLDERS = ((BENCH, BENCH / "cases"), (BENCH / "more", BENCH / "more"))

PROGRAMS = 42
Faults = set[tuple[str, str, tuple[str, ...]]]


def faults(findings: Iterable[Finding]) -> Faults:
    """Return kinds and places of faults; steps and counts depend on the evaluated windows."""
    return {
        (f.code, f.severity.value, tuple(sorted(f.layers)[:1]))
        for f in findings
        if f.severity is not Severity.INFO
    }


def programs() -> dict[Path, bool]:
    """Return each program, and whether it has a fault."""
    found = {}
    for folder, scripts in FOLDERS:
        expected = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
        found |= {scripts / f"{name}.py": bool(rules) for name, rules in expected.items()}
    return found


def record(script: Path, folder: Path) -> None:
    done = run(
        [*MOTHTRAP, "run", "--name", script.stem, "-q", script, "--seed", "0"],
        cwd=folder,
        env=environment(MOTHTRAP_OVERHEAD="0"),
    )
    assert done.returncode == 0, f"{script.stem}: {done.stderr}"


def without_verdicts(runs: Path, to: Path) -> Path:
    """Copy the runs without the findings of their jobs."""
    shutil.copytree(runs, to, ignore=shutil.ignore_patterns("m[0-9]*", "analyses"))
    return to


def plain(verdicts: Iterable[StoredVerdict]) -> dict[str, tuple[str, str, str]]:
    """Return the verdicts without the time that they took."""
    return {v.name: (v.error, repr(v.findings), repr(v.rules)) for v in verdicts}


@pytest.mark.timeout(900)  # five minutes on a busy machine
@pytest.mark.filterwarnings("default")  # of Ray's own
def test_findings_are_the_same_in_every_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_worker_niceness", "0")  # Ray's 15 starves workers on a busy machine
    for needed in ("distributed", "ray", "torch", "sklearn"):
        pytest.importorskip(needed)
    wanted = programs()
    assert len(wanted) == PROGRAMS
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda script: record(script, tmp_path), wanted))
    runs = tmp_path / "runs"
    inline = {p.stem: faults(mothtrap.open_run(runs / p.stem).findings) for p in wanted}
    missed = [
        path.stem for path, is_faulty in wanted.items() if is_faulty and not inline[path.stem]
    ]
    assert not missed
    verdicts = list(mothtrap.analyze(runs))
    assert {verdict.name: faults(verdict.findings) for verdict in verdicts} == inline
    serial = plain(verdicts)
    for engine in ("processes", "dask", "ray"):
        assert plain(mothtrap.analyze(runs, engine, workers=2)) == serial, engine

    aside = without_verdicts(runs, tmp_path / "aside")
    assert not any(mothtrap.open_run(aside / path.stem).findings for path in wanted)
    families = ",".join(sorted({rule.code[:3] for rule in rule_classes()}))
    words = [*MOTHTRAP, "monitor", aside, "--select", families]
    followed = run(words, cwd=tmp_path, env=environment())
    assert followed.returncode == 0, followed.stderr
    beside = {path.stem: mothtrap.open_run(aside / path.stem).findings for path in wanted}
    assert {name: faults(found) for name, found in beside.items()} == inline
