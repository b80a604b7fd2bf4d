"""Stored runs give the same findings in this process and on local Dask and Ray clusters."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.stored_run import store_run

import mothtrap
from mothtrap.monitor.stored.unit import StoredVerdict

RULES = '''
import mothtrap

@mothtrap.rule("ZZZ901", severity="error")
def low_loss(window: mothtrap.Window, *, limit: float = 0.5):
    """A loss is low."""
    for series in window.scalars("loss"):
        low_S = series.values_S < limit
        if low_S.any():
            step = int(series.steps_S[low_S][0])
            yield mothtrap.Found(step=step, message="low", evidence={"worst": float("nan")})
'''


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for number in range(4):
        store_run(tmp_path / "runs" / f"run-{number}", first_loss=10.0 ** (number % 2 * 2))
    (tmp_path / "mine.py").write_text(RULES)
    return tmp_path


def results(verdicts: mothtrap.Analysis) -> dict[str, tuple[str, str, str]]:
    def plain(verdict: StoredVerdict) -> tuple[str, str, str]:
        return verdict.error, repr(verdict.findings), repr(verdict.rules)

    return {verdict.name: plain(verdict) for verdict in verdicts}


@pytest.fixture
def expected() -> dict[str, tuple[str, str, str]]:
    here = results(mothtrap.analyze("runs", rules=["mine.py"]))
    assert len(here) == 4
    assert sum("low" in findings for _, findings, _ in here.values()) == 2
    return here


def test_dask_started_here(expected: dict[str, tuple[str, str, str]]) -> None:
    pytest.importorskip("distributed")
    assert results(mothtrap.analyze("runs", "dask", ["mine.py"], workers=2)) == expected


def test_dask_that_runs_already(expected: dict[str, tuple[str, str, str]]) -> None:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(n_workers=1, dashboard_address=None) as cluster:
        name = cluster.scheduler_address.replace("tcp://", "dask://")
        assert results(mothtrap.analyze("runs", name, ["mine.py"])) == expected
        with distributed.Client(cluster) as client:
            own = client.get_executor()
            assert results(mothtrap.analyze("runs", own, ["mine.py"])) == expected


@pytest.mark.filterwarnings("default")  # of Ray's own
def test_ray_started_here(expected: dict[str, tuple[str, str, str]]) -> None:
    ray = pytest.importorskip("ray")
    assert results(mothtrap.analyze("runs", "ray", ["mine.py"], workers=2)) == expected
    assert not ray.is_initialized(), "the cluster of this call is closed again"
