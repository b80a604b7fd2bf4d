"""Each question about a run has a short answer from the recorded data."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.cli.stored_run import store_run
from tests.report.faulty_run import exploding

from mothtrap.core.errors import UnknownNameError
from mothtrap.monitor.catalogue import documented, explains
from mothtrap.reader.run import open_run
from mothtrap.report.answers import questions
from mothtrap.report.answers.answer import MAX_TOKENS, tokens
from mothtrap.report.answers.evidence import evidence, thinned
from mothtrap.report.summary import summarize


@pytest.fixture
def faulty(tmp_path: Path):
    store_run(tmp_path / "x", findings=(exploding(),))
    run = open_run(tmp_path / "x")
    return run, summarize(run, explains())


def test_the_verdict_has_findings_in_short(faulty) -> None:
    found = questions.verdict(faulty[1]).fields()
    assert found["question"] == "verdict"
    assert found["findings"][0]["code"] == "GRD101"
    assert "why" not in found["findings"][0]
    assert len(found["findings"][0]["fixes"]) == 1
    assert found["rule_states"] == {"ok": 1}


@pytest.mark.parametrize("which", ["GRD101", "grd101", "exploding_gradient"])
def test_a_finding_is_found_by_code_and_name(faulty, which: str) -> None:
    found = questions.finding(*faulty, which, documented()).fields()
    assert found["finding"]["why"]
    assert found["rule"]
    assert found["source"]["problem"].startswith("The run did not record the content of model.py")


def test_an_unknown_finding_names_those_that_exist(faulty) -> None:
    with pytest.raises(UnknownNameError, match="it has GRD101"):
        questions.find(faulty[1], "NUM001")


def test_every_answer_is_json_within_the_limit(faulty) -> None:
    run, summary = faulty
    every = [
        questions.verdict(summary),
        questions.finding(run, summary, "GRD101", documented()),
        evidence(run, summary, "GRD101", documented()),
        questions.source(run, summary, "GRD101"),
        questions.record(run),
        questions.coverage(summary),
        questions.comparison(run, run, {"first": summary.verdict, "second": summary.verdict}),
    ]
    for answer in every:
        assert json.loads(answer.json())["schema_version"] == 1
        assert tokens(answer.fields()) <= MAX_TOKENS


def test_points_keep_the_ends_and_the_onset() -> None:
    steps = np.arange(10_000)
    pairs = thinned(steps, steps * 2.0, 7777, 50)
    assert len(pairs) <= 50
    assert pairs[0] == [0, 0.0]
    assert pairs[-1] == [9999, 19998.0]
    assert [7777, 15554.0] in pairs
