from __future__ import annotations

import msgspec
from tests.rules.windows import window

from mothtrap.core.findings import UNDONE, Finding, Severity, fingerprint
from mothtrap.monitor.finding_history import FindingHistory

WARNING, ERROR = Severity.WARNING, Severity.ERROR


def found(
    step: int,
    last_step: int,
    *,
    count: int | None = None,
    severity: Severity = ERROR,
    layers: tuple[str, ...] = ("a",),
    mode: str = "train",
) -> Finding:
    return Finding(
        code="GRD101",
        name="exploding_gradient",
        severity=severity,
        step=step,
        detected_step=last_step,
        mode=mode,
        layers=layers,
        count=last_step - step + 1 if count is None else count,
        last_step=last_step,
        message=f"until {last_step}",
        fingerprint=fingerprint("GRD101", layers, mode),
    )


def test_successive_windows_make_one_case_that_counts_each_step_once() -> None:
    book = FindingHistory()
    book.add(found(3, 4), window(steps=5))
    book.add(found(3, 9), window(steps=10))
    [case] = book.findings
    assert (case.step, case.last_step, case.count, case.detected_step) == (3, 9, 7, 4)
    assert case.message == "until 9"


def test_counts_on_when_the_onset_has_left_the_window() -> None:
    book = FindingHistory()
    book.add(found(3, 9), window(steps=10))
    later = window(steps=30)
    moved = type(later)(
        now_s=0.0, total_steps=30, steps_S=later.steps_S[20:], skipped_S=later.skipped_S[20:]
    )
    book.add(found(20, 29), moved)
    book.add(found(20, 29), moved)
    assert book.findings[0].count == 7 + 10


def test_keeps_its_identity_when_other_layers_follow() -> None:
    book = FindingHistory()
    book.add(found(3, 4, layers=("a", "b")), window(steps=5))
    book.add(found(2, 5, layers=("c", "a")), window(steps=6))
    [case] = book.findings
    assert case.layers == ("a", "b", "c")
    assert case.fingerprint == fingerprint("GRD101", ("a", "b"), "train")
    assert case.step == 2


def test_severity_rises_and_never_falls() -> None:
    book = FindingHistory()
    for last, severity in ((4, WARNING), (5, ERROR), (6, WARNING)):
        book.add(found(3, last, severity=severity), window(steps=last + 1))
    [case] = book.findings
    assert (case.severity, case.message, case.detected_step) == (ERROR, "until 5", 5)


def test_severity_falls_when_the_script_has_undone_the_harm() -> None:
    book = FindingHistory()
    book.add(found(3, 4, severity=WARNING), window(steps=5))
    undone = msgspec.structs.replace(found(3, 9, severity=Severity.INFO), evidence={UNDONE: 9})
    book.add(undone, window(steps=10))
    [case] = book.findings
    assert (case.severity, case.message) == (Severity.INFO, "until 9")
    book.add(found(3, 12, severity=WARNING), window(steps=13))
    assert [case.severity for case in book.findings] == [WARNING]


def test_tells_what_was_opened_and_what_became_worse_once() -> None:
    book = FindingHistory()
    book.add(found(3, 4, severity=WARNING), window(steps=5))
    assert [f.severity for f in book.take_worse()] == [WARNING]
    book.add(found(3, 5, severity=WARNING), window(steps=6))
    assert book.take_worse() == []
    book.add(found(3, 6), window(steps=7))
    assert [f.severity for f in book.take_worse()] == [ERROR]
    assert book.take_changed() == []


def test_tells_any_change_when_asked_for_all() -> None:
    book = FindingHistory()
    book.add(found(3, 4), window(steps=5))
    book.take_worse()
    book.add(found(3, 5), window(steps=6))
    assert [f.last_step for f in book.take_changed()] == [5]


def test_another_mode_is_another_case_and_the_worst_comes_first() -> None:
    book = FindingHistory()
    book.add(found(1, 4, mode="eval", severity=WARNING), window(steps=5))
    book.add(found(3, 4), window(steps=5))
    assert [f.mode for f in book.findings] == ["train", "eval"]
    assert book.severities() == {"GRD101": [WARNING, ERROR]}


def test_what_has_passed_is_an_info_and_an_error_again_when_it_returns() -> None:
    # A healthy language model left its plateau; the verdict still called it stuck.
    book = FindingHistory()
    book.add(found(3, 9), window(steps=10))
    book.passed("GRD101", 40)
    [case] = book.findings
    assert case.severity is Severity.INFO
    assert case.message.endswith("it had ended by step 40")
    assert case.evidence["passed_at_step"] == 40
    book.add(found(60, 70), window(steps=80))
    assert book.findings[0].severity is ERROR


def test_only_the_rule_that_looked_again_says_so() -> None:
    book = FindingHistory()
    book.add(found(3, 9), window(steps=10))
    book.passed("LOS407", 40)
    assert book.findings[0].severity is ERROR


def test_what_becomes_worse_at_a_later_onset_says_since_when_it_was_milder() -> None:
    book = FindingHistory()
    book.add(found(23, 23, severity=Severity.INFO), window(steps=24))
    book.add(found(183, 190), window(steps=191))
    [case] = book.findings
    assert (case.step, case.message) == (23, "until 190; a note since step 23")


def test_what_comes_again_says_that_it_had_passed() -> None:
    book = FindingHistory()
    book.add(found(3, 9), window(steps=10))
    book.passed("GRD101", 40)
    book.add(found(60, 70), window(steps=71))
    [case] = book.findings
    assert case.severity is ERROR
    assert case.message == "until 70; the problem that began at step 3 had ended by step 40"


def test_what_filled_most_of_the_training_stays_a_warning_when_it_passes() -> None:
    # A run ended at chance level three epochs after its finding had been resolved.
    book = FindingHistory()
    book.add(found(3, 300), window(steps=301))
    book.passed("GRD101", 390)
    assert book.findings[0].severity is WARNING
    book.passed("GRD101", 400)
    assert book.findings[0].message.endswith("it had ended by step 390")
    book.passed("GRD101", 900)
    [case] = book.findings
    assert (case.severity, case.evidence["passed_at_step"]) == (Severity.INFO, 390)
    assert case.message.count("had ended") == 1


def test_what_comes_back_holds_again_from_then_on() -> None:
    book = FindingHistory()
    book.add(found(3, 300, severity=WARNING), window(steps=301))
    book.passed("GRD101", 310)
    book.add(found(330, 399, severity=WARNING), window(steps=400))
    [case] = book.findings
    assert (case.severity, case.step) == (WARNING, 3)
    assert "passed_at_step" not in case.evidence
    assert case.message == "until 399; the problem that began at step 3 had ended by step 310"


def test_what_came_and_went_has_not_filled_the_training() -> None:
    book = FindingHistory()
    for first, last in ((0, 20), (880, 900)):
        book.add(found(first, last, severity=WARNING), window(steps=last + 1))
        book.add(found(first, last, severity=WARNING), window(steps=last + 2))
        book.passed("GRD101", last + 20)
    assert book.findings[0].severity is Severity.INFO


def test_a_fault_is_not_taken_for_lasting_until_the_rule_looked_again() -> None:
    # A short run ended before the rule had looked again; the loss had long left its plateau.
    book = FindingHistory()
    book.add(found(3, 300, severity=WARNING), window(steps=301))
    book.passed("GRD101", 800)
    assert book.findings[0].severity is Severity.INFO
