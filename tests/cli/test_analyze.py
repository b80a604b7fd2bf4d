"""`mothtrap analyze`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.cli.stored_run import store_run
from tests.report.faulty_run import exploding

from mothtrap.cli import main
from mothtrap.core.findings import RuleState
from mothtrap.core.runs import RuleStatus
from mothtrap.store import layout
from mothtrap.store.finding_log import FindingLog

RULES = '''
import mothtrap

@mothtrap.rule("ZZZ901", severity="error")
def low_loss(window: mothtrap.Window, *, limit: float = 0.5):
    """A loss is low."""
    for series in window.scalars("loss"):
        low_S = series.values_S < limit
        if low_S.any():
            yield mothtrap.Found(step=int(series.steps_S[low_S][0]), message=f"below {limit}")

@mothtrap.rule(
    "ZZZ903",
    needs=[
        mothtrap.Need(kinds=("activation",), statistics=("abs_max", "l2")),
        mothtrap.Need(kinds=("gradient",), statistics=("l2",)),
    ],
)
def large_output(window):
    """An output is large."""
    if window.matrix("activation", "abs_max") is None:
        raise mothtrap.NotEnoughData("no output was captured yet")

@mothtrap.rule("ZZZ904")
def long_training(window):
    """Training takes long."""
    raise mothtrap.NotEnoughData("too few steps were seen")

@mothtrap.rule("ZZZ902")
def broken(window):
    """It fails."""
    raise ValueError("no")
'''


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stored run whose loss is 1 / (step + 1), and rules to evaluate it."""
    monkeypatch.chdir(tmp_path)
    store_run(tmp_path / "runs" / "x", findings=(exploding(),))
    (tmp_path / "mine.py").write_text(RULES)
    return tmp_path


def analyze(*args: str) -> Result:
    return CliRunner().invoke(main, ["analyze", "--rules", "mine.py", *args])


def told(done: Result) -> list[tuple[str, int]]:
    return [(f["code"], f["step"]) for f in json.loads(done.stdout)["findings"]]


def reasons(done: Result) -> dict[str, str]:
    return {rule["code"]: rule["reason"] for rule in json.loads(done.stdout)["rules"]}


def test_what_a_rule_needs_and_the_run_did_not_capture_is_said() -> None:
    told = reasons(analyze("--select", "ZZZ903,ZZZ904", "--format", "json"))
    assert told["ZZZ903"] == (
        "the run has no abs_max, l2 of activation, no l2 of gradient, which the rule needs; a job "
        "that runs with this rule (--rules, select) captures it"
    )
    assert told["ZZZ904"] == "too few steps were seen"


def test_a_rule_that_was_in_force_gives_its_own_reason(folder: Path) -> None:
    monitor = FindingLog(layout.monitor_folder(folder / "runs" / "x" / "1", 0))
    own = RuleStatus(code="ZZZ903", name="large_output", state=RuleState.NOT_ENOUGH_DATA)
    monitor.append((), (own,))
    monitor.close()
    told = reasons(analyze("--select", "ZZZ903", "--format", "json"))
    assert told["ZZZ903"] == "no output was captured yet"


def test_rules_of_now_judge_what_was_stored() -> None:
    done = analyze("--select", "ZZZ901", "--format", "json")
    assert (done.exit_code, told(done)) == (1, [("ZZZ901", 2)])
    record = json.loads(done.stdout)
    assert record["verdict"].startswith("Low loss since step 2")
    assert [(rule["code"], rule["state"]) for rule in record["rules"]] == [("ZZZ901", "error")]
    assert "GRD101" in CliRunner().invoke(main, ["show"]).output, "what is stored stays"


@pytest.mark.parametrize(
    ("setting", "step"),
    [("ZZZ901.limit=0.25", 4), ("zzz901.limit = 1", 1), ("ZZZ901.limit=1e-9", None)],
)
def test_set_changes_a_threshold(setting: str, step: int | None) -> None:
    done = analyze("x", "--select", "ZZZ901", "--set", setting, "--format", "json")
    assert told(done) == ([] if step is None else [("ZZZ901", step)])
    assert done.exit_code == (step is not None)


def test_exit_codes_say_what_was_found() -> None:
    assert analyze("--select", "ZZZ901", "--fail-on", "never").exit_code == 0
    assert analyze("--select", "ZZZ902").exit_code == 0
    assert analyze("--select", "ZZZ902", "--strict").exit_code == 2
    shown = " ".join(analyze("--select", "ZZZ902").output.split())
    assert shown.startswith("All rules were switched off")
    assert "ValueError: no" in shown


def test_a_baseline_leaves_out_what_is_known(folder: Path) -> None:
    done = analyze("--select", "ZZZ901", "--format", "json")
    [finding] = json.loads(done.stdout)["findings"]
    known = {key: finding[key] for key in ("fingerprint", "severity", "code", "name", "layers")}
    (folder / "known.json").write_text(json.dumps({"version": 1, "findings": [known]}))
    quiet = analyze("--select", "ZZZ901", "--format", "json", "--baseline", "known.json")
    assert (quiet.exit_code, told(quiet)) == (0, [])


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--set", "ZZZ901"], "--set 'ZZZ901' is not a setting; expected CODE.THRESHOLD=VALUE"),
        (["--set", "limit=3"], "is not a setting"),
        (["--set", "ZZZ901.limi=3"], "--set: ZZZ901 has no 'limi' (did you mean 'limit'?)"),
        (["--set", "ZZZ901.limit=high"], "--set: ZZZ901 limit = 'high' is str, expected float"),
        (["--set", "NUM01.foo=3"], "--set: NUM01 names no rule (did you mean 'NUM0"),
        (["--select", "NOPE", "--set", "ZZZ901.limit=3"], "configuration: select contains 'NOPE'"),
        (["--select", "NOPE"], "select contains 'NOPE'"),
        (["nowhere"], "nowhere"),
    ],
)
def test_mistakes_are_answered_in_words(args: list[str], message: str) -> None:
    done = analyze(*args)
    assert done.exit_code == 2
    assert message in done.stderr
    assert "GRD101, " not in done.stderr
