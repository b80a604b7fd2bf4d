"""`mothtrap.probe` stores its findings as a run that every reader can read."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.linear_model import LogisticRegression
from tests.behavior.asking import labels, people, sure

import mothtrap
from mothtrap.cli import main
from mothtrap.core.errors import ConfigError, RunExistsError
from mothtrap.core.runs import RunKind
from mothtrap.web.listing import RunsFolder

X = people(2000)


def turned(d: Any) -> np.ndarray:
    """Return a model that is wrong where `kind` is c."""
    right = sure(d)
    return np.where((d.kind == "c").to_numpy()[:, None], right[:, ::-1], right)


@pytest.fixture(scope="module")
def probed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("probed")
    return mothtrap.probe(
        turned,
        X,
        labels(X, 0.1),
        select=["BEH201", "BEH207"],
        name="asked",
        runs_dir=str(folder / "runs"),
    )


def command(*words: str) -> str:
    result = CliRunner().invoke(main, words)
    assert result.exit_code in (0, 1), result.output
    return result.output


def test_the_report_names_the_segment_and_all_its_rows(probed: Any) -> None:
    (finding,) = probed.findings
    assert finding.evidence["segment"] == "kind = c"
    assert probed.rows(finding).tolist() == np.flatnonzero(X.kind == "c").tolist()


def test_the_run_holds_findings_rows_and_what_was_asked(probed: Any) -> None:
    run = mothtrap.open_run(probed.path)
    assert run.kind is RunKind.PROBE
    assert run.state == "finished"
    assert run.findings[0].message == probed.findings[0].message
    assert run.finding_rows(run.findings[0].fingerprint).tolist() == (
        probed.rows(probed.findings[0]).tolist()
    )
    assert run.probed is not None
    assert (run.probed.rows, run.probed.judged, run.probed.task) == (2000, 2000, "classification")
    assert run.probed.predicted >= 2000
    assert not run.damage


def test_show_speaks_of_rows_and_not_of_steps(probed: Any) -> None:
    text = command("show", str(probed.path))
    assert "BEH201 weak_segment  input:kind" in text
    assert "= fix: Look at the rows" in text
    assert "1 warning in 2,000 rows" in text
    assert "step" not in text.split("record")[0]
    shown = json.loads(command("show", str(probed.path), "--format", "json", "--all"))
    assert shown["run"]["unit"] == "row"


def test_lists_and_verdicts_count_rows(probed: Any) -> None:
    (line,) = command("ls", str(probed.path.parent)).splitlines()
    assert "  probed 2,000 rows  " in line
    assert "[probe]" in line
    assert "steps" not in line
    run = mothtrap.open_run(probed.path)
    assert run.judged_size == (2000, "row")


def test_reports_in_every_format_hold_the_finding(probed: Any) -> None:
    path = str(probed.path)
    log = json.loads(command("report", path, "--format", "sarif"))["runs"][0]
    assert log["results"][0]["ruleId"] == "BEH201"
    assert "since step" not in log["results"][0]["message"]["text"]
    assert "Slice Finder" in log["tool"]["driver"]["rules"][0]["help"]["markdown"]
    suite = ET.fromstring(command("report", path, "--format", "junit"))
    names = [case.get("name") for case in suite.iter("testcase")]
    assert names == ["BEH201 weak_segment", "BEH207 residuals_in_order"]
    assert suite.get("failures") == suite.get("skipped") == "1"
    for form in ("html", "markdown", "github"):
        assert "kind = c" in command("report", path, "--format", form)


def test_the_rule_command_explains_a_probe() -> None:
    text = command("rule", "BEH201")
    assert text.startswith("BEH201 weak_segment")
    assert "least_ratio = 1.5" in text
    assert command("rule", "weak-segment") == text


def test_the_page_lists_the_run(probed: Any) -> None:
    (row,) = RunsFolder(str(probed.path.parent)).page(query="kind == 'probe'").rows
    assert (row.name, row.severity, row.findings) == ("asked", "warning", ("BEH201",))


def test_a_name_that_is_taken_is_refused(probed: Any) -> None:
    with pytest.raises(RunExistsError):
        mothtrap.probe(
            sure,
            X,
            labels(X, 0.1),
            select=["BEH207"],
            name="asked",
            runs_dir=str(probed.path.parent),
        )


def test_nothing_is_stored_where_mothtrap_is_disabled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOTHTRAP_DISABLE", "1")
    found = mothtrap.probe(sure, X, labels(X, 0.1), select=["BEH2"], runs_dir=str(tmp_path / "r"))
    assert found.path is None
    assert not (tmp_path / "r").exists()


def test_settings_that_do_not_fit_are_refused_in_words() -> None:
    y = labels(X, 0.1)
    with pytest.raises(ConfigError, match="2,000 rows, but 10 targets"):
        mothtrap.probe(sure, X, y[:10])
    with pytest.raises(ConfigError, match="no column 'agee'"):
        mothtrap.probe(sure, X, y, monotone={"agee": "+"})
    with pytest.raises(ConfigError, match="BEX"):
        mothtrap.probe(sure, X, y, select=["BEX"])


def test_what_if_changes_one_value_and_says_both_answers(probed: Any) -> None:
    row = int(np.flatnonzero((X.kind == "a") & (X.x0 > 0))[0])
    answer = probed.what_if(row, kind="c")
    assert answer.before["1"] == pytest.approx(0.88)
    assert answer.after["1"] == pytest.approx(0.12)
    grown = probed.what_if(row, age="+10%")
    assert grown.changes["age"] == round(1.1 * X.age[row])
    assert len(probed.what_if_table(row, "x1", "age")) == 12
    with pytest.raises(mothtrap.MothtrapError, match="no column 'agee'"):
        probed.what_if(row, agee=3)


def test_a_counterfactual_is_near_and_changes_the_answer(probed: Any) -> None:
    row = int(np.flatnonzero((X.kind == "a") & (X.x0 > 0))[0])
    found = probed.counterfactual(row)
    assert len(found.changes) == 1
    assert (found.before, found.after) == (1, 0)
    only = probed.counterfactual(row, columns=("x0",))
    assert only.changes["x0"] <= 0
    assert probed.counterfactual(row, columns=("age",)) is None


def test_curves_are_those_of_the_model(probed: Any) -> None:
    ice = probed.curve("ice", "x0")
    assert ice.output_RG.shape == (256, len(ice.grid_G))
    assert np.allclose(probed.curve("pdp", "x0").output_G, ice.output_RG.mean(axis=0))
    chart = probed.figure("ale", "x0")
    assert chart["layer"][0]["data"]["values"]


def test_the_command_probes_a_model_and_fails_as_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    X.assign(y=labels(X, 0.1)).to_csv("held.csv", index=False)
    Path("served.py").write_text(
        "from tests.behavior.asking import sure\n"
        "def predict(d):\n"
        "    p = sure(d)\n"
        "    p[(d.kind == 'c').to_numpy()] = p[(d.kind == 'c').to_numpy()][:, ::-1]\n"
        "    return p\n"
    )
    words = ["probe", "served:predict", "held.csv", "--target", "y", "--select", "BEH201"]
    result = CliRunner().invoke(main, [*words, "--fail-on", "warning"])
    assert result.exit_code == 1, result.output
    assert "kind = c" in result.output
    assert mothtrap.open_run(None, "runs").kind is RunKind.PROBE
    refused = CliRunner().invoke(main, [*words[:3], "--target", "yy"])
    assert refused.exit_code == 2
    assert "no column 'yy'" in refused.output
    refused = CliRunner().invoke(main, [*words[:2], *words[3:]])
    assert "expected MODEL and DATA" in refused.output


def test_the_command_checks_assertions_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    X.assign(y=labels(X, 0.1)).to_csv("held.csv", index=False)
    Path("sums.py").write_text(
        "import mothtrap\nfrom mothtrap.behavior.assertions import sums_to_one\n"
        "whole = sums_to_one()\n"
        "@mothtrap.assertion('BEH901')\n"
        "def is_never_sure(X, predictions, *, high=0.5):\n"
        "    return predictions.max(axis=1) < high\n"
    )
    words = ["probe", "tests.behavior.asking:sure", "held.csv", "--target", "y"]
    asked = [*words, "--select", "BEH207", "--assert", "sums.py", "--fail-on", "error"]
    result = CliRunner().invoke(main, asked)
    assert result.exit_code == 1, result.output
    assert "2,000 of 2,000 predictions (100.00 %) break the assertion is_never_sure" in (
        " ".join(result.output.split())
    )
    assert "BEH912" not in result.output
    Path("none.py").write_text("x = 1\n")
    refused = CliRunner().invoke(main, [*words, "--assert", "none.py"])
    assert refused.exit_code == 2
    assert "defines no assertion" in refused.output


def test_the_command_compares_new_rows_with_and_without_targets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    X.assign(y=labels(X, 0.1)).to_csv("held.csv", index=False)
    new = people(1000, seed=5)
    new["x0"] += 2
    new.to_csv("rows.csv", index=False)
    new.assign(y=1 - labels(new, 0.1)).to_csv("both.csv", index=False)
    words = ["probe", "tests.behavior.asking:sure", "held.csv", "--target", "y", "--select", "BEH6"]
    shown = CliRunner().invoke(main, [*words, "--new", "rows.csv"]).output
    assert "BEH601 drifted  input:x0" in shown
    assert "BEH605" not in shown
    assert "BEH605 loss_rose" in CliRunner().invoke(main, [*words, "--new", "both.csv"]).output


def test_a_model_with_default_settings_on_fair_data_gets_no_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MOTHTRAP_DISABLE", "1")
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(3000, 5))
    y = (rows[:, 0] - rows[:, 1] + rng.logistic(size=3000) > 0).astype(int)
    model = LogisticRegression().fit(rows[:1500], y[:1500])
    found = mothtrap.probe(model, rows[1500:], y[1500:], ignore=["BEH108"])
    assert [f.code for f in found.findings if f.severity != "info"] == []
