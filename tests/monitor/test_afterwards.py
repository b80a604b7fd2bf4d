"""A stored run evaluated again gives the findings that it gave while it was running."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.harness.running import environment, observed, run

from mothtrap.core.config import Config
from mothtrap.core.findings import Finding, RuleState
from mothtrap.core.quiet import Quiet
from mothtrap.core.runs import Judged
from mothtrap.monitor import afterwards
from mothtrap.monitor.afterwards import judge_again
from mothtrap.monitor.catalogue import load_rules
from mothtrap.reader.run import Run, open_run

HERE = Path(__file__).parent
UNREACHED = {"LOS402": {"runaway_ratio": 1e9, "lasting_ratio": 1e9}}
FAULTY = HERE.parent / "faulty"


def watched(tmp_path: Path, *words: str | Path) -> Run:
    """Run a faulty program and open its run."""
    command = observed([*words, "--seed", "0"], runs_dir=tmp_path, name="run")
    done = run(command, cwd=tmp_path, env=environment(MOTHTRAP_OVERHEAD="0"))
    assert done.returncode == 0, done.stderr
    return open_run(tmp_path / "run")


def plain(finding: Finding) -> dict:
    return {name: getattr(finding, name) for name in finding.__struct_fields__}


@pytest.mark.parametrize(
    "fault", [pytest.param("dead_units", marks=pytest.mark.full), "nonfinite_activation"]
)
def test_live_and_stored_findings_are_the_same(fault: str, tmp_path: Path) -> None:
    opened = watched(tmp_path, HERE / "judged_every_step.py", FAULTY / f"{fault}.py")
    again = judge_again(opened, load_rules(Config()), every=1)
    assert fault in {finding.name for finding in opened.findings}
    for live, stored in zip(opened.findings, again.findings, strict=True):
        told, expected = plain(stored), plain(live)
        np.testing.assert_equal(told, expected)  # NaN in evidence is equal here
    assert again.rules == opened.rules
    assert repr(judge_again(opened, load_rules(Config()), every=1)) == repr(again), "deterministic"


@pytest.fixture(scope="module")
def diverging(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return watched(tmp_path_factory.mktemp("runs"), FAULTY / "loss_diverging.py")


def judged(opened: Run, **settings: object) -> Judged:
    config = Config(**settings)  # type: ignore[arg-type]
    return judge_again(opened, load_rules(config), Quiet.of(config))


def test_later_windows_are_sixteen_records_apart(
    diverging: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    distances = []

    class Seen(afterwards.Monitor):
        def __init__(self, *given: Any, every: int, **more: Any) -> None:
            distances.append(every)
            super().__init__(*given, every=every, **more)

    monkeypatch.setattr(afterwards, "Monitor", Seen)
    judged(diverging)
    assert distances == [16]


def test_the_settings_are_those_of_now(diverging: Run) -> None:
    def told(**settings: object) -> dict[str, str]:
        return {f.code: f.severity for f in judged(diverging, **settings).findings}

    assert told(select=("LOS402",)) == {"LOS402": "error"}
    assert told(select=("LOS402",), severity={"LOS": "warning"}) == {"LOS402": "warning"}
    assert told(ignore=("LOS402",)).keys().isdisjoint({"LOS402"})
    assert told(select=("LOS402",), rules=UNREACHED) == {}


def test_a_rule_that_fails_is_named_and_the_others_go_on(diverging: Run, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import mothtrap\n@mothtrap.rule('ZZZ901')\ndef broken(window):\n    return 1 / 0\n"
    )
    states = {
        status.code: status.state
        for status in judged(
            diverging, rule_files=(str(tmp_path / "mine.py"),), select=("ZZZ", "LOS402")
        ).rules
    }
    assert states == {"ZZZ901": RuleState.RULE_FAILED, "LOS402": RuleState.ERROR}


def test_on_a_terminal_it_is_shown_how_far_the_judging_is(
    diverging: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal, pipe = Terminal(), io.StringIO()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stderr", terminal)
    shown = judged(diverging, select=("LOS",))
    assert "evaluating w0" in terminal.getvalue()
    monkeypatch.setattr("sys.stderr", pipe)
    assert repr(judged(diverging, select=("LOS",))) == repr(shown)
    assert pipe.getvalue() == ""


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True
