"""The runner confirms, bounds and survives: budget, failures, few rows, and many findings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.behavior.asking import labels, outcome, people, subject_of, sure

from mothtrap.behavior.installed_probes import probe_classes, selected
from mothtrap.behavior.probe import Probe, Suspicion
from mothtrap.behavior.probing import MAX_FINDINGS, run_probes
from mothtrap.behavior.segments import Literal, Segment
from mothtrap.behavior.subject import MAX_ROWS, Subject
from mothtrap.behavior.subjects import Request, make_subject
from mothtrap.core.errors import ConfigError
from mothtrap.core.findings import RuleState, Severity

X = people(800)
Y = labels(X, 0.12)


@dataclass(frozen=True)
class Named(Probe):
    """Returns the given suspicions."""

    code = "BEH999"
    called = "named"
    severity = Severity.WARNING
    given: tuple[Suspicion, ...] = ()

    def look(self, subject: Subject) -> Iterator[Suspicion]:
        yield from self.given


@dataclass(frozen=True)
class Broken(Probe):
    """Fails after its first suspicion."""

    code = "BEH998"
    called = "broken"

    def look(self, subject: Subject) -> Iterator[Suspicion]:
        raise ZeroDivisionError("no")
        yield


def test_a_suspicion_counts_only_where_chance_is_small_among_all() -> None:
    given = [
        Suspicion(message=f"m{i}", p=p, features=(f"f{i}",)) for i, p in enumerate((1e-5, 0.004))
    ]
    assert len(outcome(Named(tuple(given)), sure, X, Y).findings) == 2
    many = [Suspicion(message="n", p=0.5, features=(f"g{i}",)) for i in range(8)]
    found = outcome(Named((*given, *many)), sure, X, Y).findings
    assert [finding.message for finding in found] == ["m0"]


def test_a_failing_probe_does_not_stop_the_others() -> None:
    subject, everything = make_subject(sure, X, Y)
    fine = Named((Suspicion(message="m", exact=True),))
    found = run_probes(subject, [Broken(), fine], everything)
    assert [finding.message for finding in found.findings] == ["m"]
    assert found.statuses[0].state is RuleState.RULE_FAILED
    assert "ZeroDivisionError: no" in found.statuses[0].reason
    assert "in look" in found.failures["BEH998"]


def test_at_most_fifteen_findings_are_reported_and_the_others_counted() -> None:
    given = [Suspicion(message=f"m{i}", features=(f"f{i}",), exact=True) for i in range(20)]
    found = outcome(Named(tuple(given)), sure, X, Y)
    assert len(found.findings) == MAX_FINDINGS
    assert found.left_out == 5


def test_statistics_of_few_rows_are_notes_and_relations_are_not() -> None:
    small = people(300)
    given = (Suspicion(message="s", p=1e-9), Suspicion(message="e", features=("f",), exact=True))
    found = outcome(Named(given), sure, small, labels(small, 0.1)).findings
    assert {f.message: f.severity for f in found} == {"s": Severity.INFO, "e": Severity.WARNING}


def test_all_rows_of_a_segment_are_named_beyond_the_sample() -> None:
    large = people(MAX_ROWS + 4000)
    segment = Segment((Literal("kind", level="b"),))
    found = outcome(
        Named((Suspicion(message="m", segment=segment, exact=True),)),
        sure,
        large,
        labels(large, 0.1),
    )
    (rows,) = found.rows.values()
    assert rows.tolist() == np.flatnonzero(large.kind == "b").tolist()
    (finding,) = found.findings
    assert finding.evidence["rows"] == len(rows)
    assert len(finding.evidence["first_rows"]) == 20


def test_a_spent_budget_is_said_and_what_was_found_before_is_kept() -> None:
    subject, everything = make_subject(sure, X, Y, None, Request(predictions=2 * len(X)))
    fine = Named((Suspicion(message="m", exact=True),))
    found = run_probes(subject, [fine, *selected(["BEH101", "BEH104"])], everything)
    assert len(found.findings) == 1
    states = {status.code: status for status in found.statuses}
    assert states["BEH101"].state is RuleState.NOT_ENOUGH_DATA
    assert "predictions" in states["BEH101"].reason
    assert subject.budget.predicted <= 2 * len(X)


def test_no_seconds_are_left() -> None:
    subject = subject_of(sure, X, Y, budget_s=0.5)
    while subject.budget.elapsed_s < 0.5:
        pass
    found = run_probes(subject, selected(["BEH2"]), subject.table)
    assert {status.state for status in found.statuses} == {RuleState.NOT_ENOUGH_DATA}
    assert all("--budget" in status.reason for status in found.statuses)


def test_the_same_seed_gives_the_same_findings() -> None:
    y = labels(X, np.where(X.kind == "b", 0.5, 0.1))
    first, second = (outcome(selected(["BEH201"])[0], sure, X, y, seed=3) for _ in range(2))
    assert first.findings == second.findings
    assert first.findings


def test_every_probe_is_documented_and_has_a_code_and_a_name_of_its_own() -> None:
    classes = probe_classes()
    assert len({probe.code for probe in classes}) == len({probe.name() for probe in classes})
    for probe in classes:
        doc = probe.doc()
        assert doc.summary.endswith("."), probe
        wanted = {"What it detects", "Why it matters", "Fires", "Stays quiet", "What to do"}
        assert wanted <= doc.sections.keys(), probe
        assert doc.fixes, probe


def test_probes_are_selected_by_the_beginning_of_their_code() -> None:
    assert {probe.code for probe in selected(["BEH30"], ["BEH301"])} == {
        "BEH302",
        "BEH303",
        "BEH304",
        "BEH305",
    }
    with pytest.raises(ConfigError, match="BEH9"):
        selected(["BEH9"])
    assert selected(["BEH901"], further=["BEH901"]) == ()  # the code of the user's own assertion


def test_a_model_that_refuses_all_rows_is_an_error_of_the_user() -> None:
    """Such as an ONNX model whose input has a fixed size."""

    def fixed(rows: Any) -> Any:
        raise RuntimeError(f"got invalid dimensions: expected 3, found {len(rows)}")

    X = people(100)
    with pytest.raises(ConfigError, match=r"failed on 100 rows of 5 columns: .*expected 3"):
        subject_of(fixed, X, labels(X, 0.1))


def test_a_model_that_refuses_is_no_failed_probe() -> None:
    def many(d: pd.DataFrame) -> np.ndarray:
        if len(d) < 100:
            raise ValueError("more rows, please")
        return sure(d)

    found = outcome(selected(["BEH108"])[0], many, X, Y)
    assert found.statuses[0].state is RuleState.NOT_APPLICABLE
    assert "more rows, please" in found.statuses[0].reason
    assert not found.failures


def test_a_model_that_changes_its_rows_in_place_is_asked_about_the_given_ones() -> None:
    rows = X.assign(x1=np.where(np.arange(len(X)) % 4 == 0, np.nan, X.x1))

    def filling(d: pd.DataFrame) -> np.ndarray:
        d["x1"] = d["x1"].fillna(0.0)
        return sure(d)

    subject = subject_of(filling, rows, Y)
    subject.ask(subject.table)
    assert subject.table.data.x1.isna().sum() == len(X) // 4
    assert rows.x1.isna().sum() == len(X) // 4
