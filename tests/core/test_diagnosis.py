from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from mothtrap.core.diagnosis import ONSET_SLACK_STEPS, diagnose, fault_name, verdict, when
from mothtrap.core.findings import Finding, Severity, fingerprint

EXPLAINS = {
    "GRD101": frozenset({"LOS402", "NUM001", "NUM002"}),
    "LOS402": frozenset({"NUM001", "NUM002"}),
    "NUM001": frozenset({"NUM002", "LOS402"}),
    "NUM002": frozenset({"NUM001"}),
    "STR701": frozenset({"LOS401"}),
}


def found(
    code: str,
    step: int,
    *,
    severity: Severity = Severity.ERROR,
    workers: tuple[int, ...] = (0,),
    layers: tuple[str, ...] = (),
    location: str | None = None,
    seen_after: int = 0,
) -> Finding:
    return Finding(
        code=code,
        name=code.lower(),
        severity=severity,
        step=step,
        detected_step=step + seen_after,
        workers=workers,
        layers=layers,
        message="",
        fixes=("Do this first.", "Then that"),
        location=location,
        fingerprint=fingerprint(code, layers, "train"),
    )


def by_code(findings: tuple[Finding, ...]) -> dict[str, Finding]:
    return {finding.code: finding for finding in findings}


def test_joins_a_chain_under_its_root() -> None:
    diagnosis = diagnose([found("NUM001", 14), found("LOS402", 12), found("GRD101", 10)], EXPLAINS)
    [story] = diagnosis.stories
    told = by_code(diagnosis.findings)
    assert story.root == told["GRD101"].fingerprint
    assert story.effects == (told["LOS402"].fingerprint, told["NUM001"].fingerprint)
    assert told["GRD101"].caused_by == ()
    assert set(told["NUM001"].caused_by) == {"GRD101", "LOS402"}
    assert told["GRD101"].causes == ("LOS402", "NUM001")


def test_what_is_not_finite_in_evaluation_is_told_as_such() -> None:
    later = msgspec.structs.replace(found("NUM001", 75), name="nonfinite_loss", mode="eval")
    overfit = msgspec.structs.replace(found("GRD101", 10), name="overfit", mode="eval")
    [story] = diagnose([overfit, later], EXPLAINS).stories
    assert story.sentence == "Overfit since step 10."
    assert fault_name(later) == "non-finite loss of evaluation"


def test_in_one_step_the_loss_breaks_the_gradient_and_not_the_reverse() -> None:
    told = by_code(diagnose([found("NUM002", 5), found("NUM001", 5)], EXPLAINS).findings)
    assert told["NUM002"].caused_by == ("NUM001",)
    assert told["NUM001"].caused_by == ()


def test_a_gradient_that_broke_earlier_breaks_the_loss() -> None:
    told = by_code(diagnose([found("NUM002", 5), found("NUM001", 6)], EXPLAINS).findings)
    assert told["NUM001"].caused_by == ("NUM002",)


def test_a_cause_may_be_dated_a_little_late() -> None:
    late = found("STR701", ONSET_SLACK_STEPS)
    assert len(diagnose([late, found("LOS401", 0)], EXPLAINS).stories) == 1
    too_late = found("STR701", ONSET_SLACK_STEPS + 1)
    assert len(diagnose([too_late, found("LOS401", 0)], EXPLAINS).stories) == 2


def test_what_is_judged_over_a_long_stretch_is_dated_loosely() -> None:
    cause, flat = found("STR701", 60), found("LOS401", 0, seen_after=200)
    assert len(diagnose([cause, flat], EXPLAINS).stories) == 1
    assert len(diagnose([found("STR701", 80), flat], EXPLAINS).stories) == 2


def test_what_is_exact_to_the_step_gets_no_slack() -> None:
    assert (
        len(diagnose([found("GRD101", 6), found("NUM001", 5, seen_after=90)], EXPLAINS).stories)
        == 2
    )


def test_other_workers_are_other_stories() -> None:
    stories = diagnose([found("GRD101", 1), found("LOS402", 2, workers=(1,))], EXPLAINS).stories
    assert len(stories) == 2


def test_a_note_explains_no_error() -> None:
    note = found("STR701", 0, severity=Severity.INFO)
    told = by_code(diagnose([note, found("LOS401", 3)], EXPLAINS).findings)
    assert told["LOS401"].caused_by == ()


def test_a_story_is_as_bad_as_its_worst_part_and_the_worst_comes_first() -> None:
    mild = found("STR701", 0, severity=Severity.WARNING)
    cause = found("GRD101", 10, severity=Severity.WARNING)
    stories = diagnose([mild, cause, found("NUM001", 12)], EXPLAINS).stories
    assert [(s.severity, s.step) for s in stories] == [
        (Severity.ERROR, 10),
        (Severity.WARNING, 0),
    ]


def test_the_sentence_names_fault_layer_step_numbers_and_line() -> None:
    root = found("GRD101", 10, layers=("rnn.weight", "head.weight"), location="model.py:8")
    root = msgspec.structs.replace(root, message="the norm is 9")
    diagnosis = diagnose([root, found("NUM001", 12)], EXPLAINS)
    assert verdict(diagnosis, steps=100) == (
        "Grd101 in rnn.weight and 1 more since step 10: the norm is 9 (model.py:8)."
    )
    numbered = diagnose([found("GRD101", 10, layers=("0",))], EXPLAINS)
    assert verdict(numbered, steps=100).startswith("Grd101 in layer 0 since step 10")


def test_the_verdict_counts_other_problems() -> None:
    diagnosis = diagnose([found("GRD101", 10), found("STR701", 50)], EXPLAINS)
    assert verdict(diagnosis, steps=100).endswith(" 1 more problem.")


def test_a_clean_run_says_how_much_was_seen() -> None:
    assert verdict(diagnose([], EXPLAINS), steps=1) == "Nothing wrong was found in 1 step."
    note = diagnose([found("STR701", 0, severity=Severity.INFO)], EXPLAINS)
    assert verdict(note, steps=9) == "No error or warning in 9 steps, 1 note."


@given(
    st.lists(
        st.tuples(st.sampled_from(sorted(EXPLAINS)), st.integers(0, 20)),
        unique_by=lambda pair: pair[0],
    )
)
def test_every_finding_belongs_to_a_story_and_every_story_has_a_root(
    pairs: list[tuple[str, int]],
) -> None:
    diagnosis = diagnose([found(code, step) for code, step in pairs], EXPLAINS)
    told = {f for story in diagnosis.stories for f in (story.root, *story.effects)}
    assert told == {finding.fingerprint for finding in diagnosis.findings}
    for story in diagnosis.stories:
        [root] = [f for f in diagnosis.findings if f.fingerprint == story.root]
        assert root.caused_by == ()


def test_what_has_passed_explains_what_began_while_it_held() -> None:
    passed = msgspec.structs.replace(
        found("STR701", 0, severity=Severity.INFO), evidence={"passed_at_step": 180}
    )
    [story] = diagnose([passed, found("LOS401", 20)], EXPLAINS).stories
    assert (story.root, story.severity) == (passed.fingerprint, Severity.ERROR)
    later = diagnose([passed, found("LOS401", 190)], EXPLAINS).stories
    assert len(later) == 2
    short = msgspec.structs.replace(passed, evidence={"passed_at_step": 30})
    assert len(diagnose([short, found("LOS401", 20)], EXPLAINS).stories) == 2


def test_a_short_cause_explains_damage_that_lasts() -> None:
    passed = msgspec.structs.replace(
        found("STR701", 0, severity=Severity.INFO), evidence={"passed_at_step": 26}
    )
    explains = {"STR701": frozenset({"ACT201"})}
    [story] = diagnose([passed, found("ACT201", 16)], explains).stories
    assert story.root == passed.fingerprint
    assert len(diagnose([passed, found("ACT201", 30)], explains).stories) == 2


def test_what_has_passed_explains_nothing_that_something_else_explains() -> None:
    passed = msgspec.structs.replace(
        found("GRD101", 0, severity=Severity.INFO), evidence={"passed_at_step": 180}
    )
    diagnosis = diagnose([passed, found("LOS402", 20), found("NUM001", 30)], {**EXPLAINS})
    told = by_code(diagnosis.findings)
    assert told["LOS402"].caused_by == ("GRD101",)
    assert told["NUM001"].caused_by == ("LOS402",)


def test_what_is_over_stands_in_the_past_and_does_not_lead() -> None:
    over = msgspec.structs.replace(
        found("LOS404", 10, severity=Severity.WARNING), evidence={"passed_at_step": 60}
    )
    active = found("OPT601", 50, severity=Severity.WARNING)
    assert [story.sentence for story in diagnose([over, active], EXPLAINS).stories] == [
        "Opt601 since step 50.",
        "Los404 from step 10 to 60.",
    ]


def test_what_is_over_leads_where_its_effects_go_on() -> None:
    over = msgspec.structs.replace(
        found("STR701", 10, severity=Severity.WARNING), evidence={"passed_at_step": 60}
    )
    effect = found("LOS401", 20, severity=Severity.WARNING)
    active = found("OPT601", 50, severity=Severity.WARNING)
    first = diagnose([over, effect, active], EXPLAINS).stories[0]
    assert first.root == over.fingerprint


def test_boosted_trees_have_rounds() -> None:
    feature = found("TRE901", 3)
    assert when(feature) == " since round 3"
    assert when(found("GRD101", 3)) == " since step 3"
