"""`mothtrap.asserted` records failing predictions as a run, within limits, in all cases."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import mothtrap
from mothtrap.cli import main
from mothtrap.core.runs import RunKind
from mothtrap.session import serve_record
from mothtrap.web.listing import RunsFolder

X = pd.DataFrame({"size": np.arange(10.0), "kind": list("abcdefghij")})


@mothtrap.assertion("BEH901")
def is_positive(X: Any, predictions: Any) -> Any:
    """A price is negative."""
    return predictions >= 0


def predict(rows: Any) -> Any:
    return rows["size"].to_numpy() - 2


def made(folder: Path, **more: Any) -> Any:
    return mothtrap.asserted(predict, [is_positive], runs_dir=str(folder), name="served", **more)


PROGRAM = """
import os, signal, sys
from tests.session.test_serving import X, made
served = made(sys.argv[1])
for _ in range(3):
    served(X)
if len(sys.argv) > 2:
    os.kill(os.getpid(), signal.SIGKILL)
"""


def ran(folder: Path, *words: str) -> int:
    command = [sys.executable, "-c", PROGRAM, str(folder), *words]
    return subprocess.run(
        command, check=False, env={**os.environ, "PYTHONPATH": os.getcwd()}
    ).returncode


def test_a_killed_process_leaves_its_failing_rows_and_a_finding(tmp_path: Path) -> None:
    assert ran(tmp_path, "kill") == -signal.SIGKILL
    run = mothtrap.open_run(tmp_path / "served")
    assert (run.kind, run.state) == (RunKind.SERVE, "crashed")
    rows = run.failing_rows("BEH901")
    assert [(each.row["kind"], each.prediction) for each in rows] == [("a", -2.0), ("b", -1.0)] * 3
    assert run.served is not None
    (finding,) = run.findings
    assert (finding.code, finding.severity) == ("BEH901", "error")
    assert "predictions (20.00 %) break the assertion is_positive" in finding.message
    assert not run.damage


def test_show_json_and_the_page_read_a_finished_run(tmp_path: Path) -> None:
    assert ran(tmp_path) == 0
    shown = CliRunner().invoke(main, ["show", str(tmp_path / "served")]).output
    assert "BEH901 is_positive  (3 calls)" in shown
    assert "1 error, 0 warnings in 30 predictions" in shown
    assert "mothtrap rule BEH901" not in shown
    words = ["show", str(tmp_path / "served"), "--format", "json"]
    told = json.loads(CliRunner().invoke(main, words).output)
    assert told["run"]["unit"] == "prediction"
    assert mothtrap.open_run(tmp_path / "served").state == "finished"
    folder = RunsFolder(str(tmp_path))
    while folder.page().pending:
        pass
    (row,) = folder.page(query="kind == 'serve'").rows
    assert (row.name, row.severity, row.findings) == ("served", "error", ("BEH901",))


def test_a_model_without_failing_predictions_has_no_finding(tmp_path: Path) -> None:
    served = made(tmp_path)
    for _ in range(3):
        assert served(X[2:]).tolist() == predict(X[2:]).tolist()
    run = mothtrap.open_run(tmp_path / "served")
    assert (run.state, run.findings, run.failing_rows()) == ("running", (), [])
    served.close()
    run.refresh()
    assert (run.state, run.served.calls) == ("finished", 3)
    assert served(X).tolist() == predict(X).tolist()  # only the record has ended


def test_the_record_is_bounded(tmp_path: Path) -> None:
    served = made(tmp_path, keep_rows=10)
    many = pd.concat([X] * 100)
    for _ in range(60):
        served(many)
    served.close()
    run = mothtrap.open_run(tmp_path / "served")
    assert run.served is not None
    assert run.served.failing == 60 * 200
    assert 10 <= len(run.failing_rows()) <= 50
    findings = list((tmp_path / "served").rglob("findings-*.arrow"))
    assert sum(path.stat().st_size for path in findings) < 100_000


def test_a_folder_that_cannot_be_written_does_not_change_a_prediction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def full(*_: Any) -> None:
        raise OSError("no space left on device")

    served = made(tmp_path)
    monkeypatch.setattr(serve_record.FailingLog, "append", full)
    for _ in range(3):
        assert served(X).tolist() == predict(X).tolist()
    assert capfd.readouterr().err.count("no space left on device") == 1


def test_threads_count_every_prediction(tmp_path: Path) -> None:
    served = made(tmp_path)
    threads = [threading.Thread(target=lambda: [served(X) for _ in range(50)]) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    served.close()
    run = mothtrap.open_run(tmp_path / "served")
    assert run.served is not None
    assert (run.served.rows, run.served.failing) == (2000, 400)
    assert not run.damage


def test_sampled_rows_are_bounded_and_can_be_compared_by_a_probe(tmp_path: Path) -> None:
    served = made(tmp_path, sample_rows=300)
    late = pd.DataFrame({"size": np.linspace(50, 60, 10), "kind": list("abcdefghij")})
    for _ in range(100):
        served(late)
    served.close()
    run = mothtrap.open_run(tmp_path / "served")
    assert run.failing_rows() == []
    rows = run.served_rows()
    assert 300 <= len(rows) <= 1000
    assert rows[0].row == {"size": 50.0, "kind": "a"}
    held = pd.concat([X] * 60).assign(y=lambda d: d["size"])
    held.to_csv(tmp_path / "held.csv", index=False)
    words = ["probe", "tests.session.test_serving:predict", str(tmp_path / "held.csv")]
    words += ["--target", "y", "--new", str(tmp_path / "served"), "--select", "BEH601"]
    shown = CliRunner().invoke(main, [*words, "--runs-dir", str(tmp_path)]).output
    assert "BEH601 drifted  input:size" in shown
    refused = CliRunner().invoke(main, [*words[:6], str(tmp_path), *words[7:]])
    assert refused.exit_code == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_process_has_a_run_of_its_own(tmp_path: Path) -> None:
    served = made(tmp_path)
    served(X)
    if (pid := os.fork()) == 0:
        served(X)
        os._exit(0)
    os.waitpid(pid, 0)
    served(X)
    assert len(mothtrap.open_run(tmp_path / "served").failing_rows()) == 4
    assert len(mothtrap.open_run(tmp_path / "served-2").failing_rows()) == 2


def test_actions_hear_of_failing_predictions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    Path("heard_by_tests.py").write_text(
        "import threading\nheard, came = [], threading.Event()\n"
        "def on(event):\n    heard.append(event.text)\n    came.set()\n"
    )
    import heard_by_tests

    actions = [{"do": ["function"], "function": "heard_by_tests:on"}]
    served = made(tmp_path / "runs", actions=actions)
    served(X)
    assert heard_by_tests.came.wait(60)
    assert "2 of 10 predictions" in heard_by_tests.heard[0]


def test_nothing_is_stored_where_mothtrap_is_disabled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOTHTRAP_DISABLE", "1")
    assert made(tmp_path / "runs")(X).tolist() == predict(X).tolist()
    assert not (tmp_path / "runs").exists()
