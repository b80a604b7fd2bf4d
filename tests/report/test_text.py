"""The texts: the verdict, the whole."""

from __future__ import annotations

import msgspec
from tests.report.faulty_run import HandMadeRun, exploding, rule

from mothtrap.core.facts.captures import Blind, Dropped
from mothtrap.core.findings import RuleState
from mothtrap.report import text
from mothtrap.report.summary import RunSummary, summarize


def summary_of(run: HandMadeRun) -> RunSummary:
    return summarize(run, {"GRD101": frozenset({"NUM001"})})  # type: ignore[arg-type]


def test_full_text_tells_causes_before_what_follows() -> None:
    nan = exploding(code="NUM001", name="nonfinite_loss", step=90, fingerprint="bbbb", layers=())
    shown = text.full(summary_of(HandMadeRun(findings=(nan, exploding(workers=(0, 1, 2))))))
    assert shown.index("GRD101") < shown.index("NUM001 nonfinite_loss")
    assert "x GRD101 exploding_gradient  blocks.1.attn.q, blocks.1.attn.k  step 71" in shown
    assert "(41 captured steps, ranks 0-2)" in shown
    assert "  --> model.py:88" in shown
    assert shown.count("  = fix: clip_grad_norm_(params, 1.0)") == 1, "advice is the cause's"
    assert "  = follows from: GRD101; fix that first" in shown
    assert "  = led to: NUM001" in shown
    assert "  = more: mothtrap rule GRD101" in shown
    assert shown.isascii()


def test_concise_text_is_one_line_per_finding_that_an_editor_can_follow() -> None:
    lines = text.concise(summary_of(HandMadeRun(findings=(exploding(),)))).split("\n")
    assert lines[0].startswith("model.py:88:1: GRD101 error: gradient norm")
    assert lines[0].endswith("(step 71)")
    assert lines[1].startswith("x: ")
    assert len(lines) == 2


def test_the_whole_groups_rules_that_could_not_judge_by_reason() -> None:
    rules = (
        rule("A1", "first", RuleState.NOT_ENOUGH_DATA, "needs 200 steps"),
        rule("A2", "second", RuleState.NOT_ENOUGH_DATA, "needs 200 steps"),
        rule("A3", "third", RuleState.NOT_APPLICABLE, "no class loss was recorded"),
        rule("A4", "fourth", RuleState.OK),
    )
    summary = summary_of(HandMadeRun(rules=rules))
    lines = text.state_lines(summary)
    counted = "1 rule ok, 2 need more data, 1 not applicable"
    assert f"0 errors, 0 warnings in 120 steps; {counted}" in " ".join(" ".join(lines).split())
    assert "  not enough data: first, second: needs 200 steps" in lines
    assert "  not applicable: 1 rule (--all lists the reasons)" in lines
    assert "third" not in " ".join(lines)
    everything = text.state_lines(summary, everything=True)
    assert "  not applicable: third: no class loss was recorded" in everything
    assert "--all" not in " ".join(everything)
    assert lines[-1] == "  overhead: 1.3 % of the training time (0.52 s)"


def test_what_was_given_up_is_listed_with_its_reasons_the_most_first() -> None:
    lost = [("tensors", 2, "late"), ("mine", 1, "its budget_mb is used up"), ("tensors", 3, "late")]
    lost += [("steps", 4, "writer queue full"), ("forwards", 1, "many"), ("tensors", 1, "rare")]
    seen = tuple(Dropped(step=0, what=what, count=n, reason=why) for what, n, why in lost)
    summary = summary_of(HandMadeRun(observed=seen, dropped=12))
    told = [line for line in text.state_lines(summary) if "not kept" in line]
    assert told == [
        "  not kept: tensors (5): late",
        "  not kept: steps (4): writer queue full",
        "  not kept: mine (1): its budget_mb is used up",
        "  not kept: 2 more (mothtrap show --format json --all lists all)",
    ]
    assert [(lost.what, lost.count) for lost in summary.not_kept[2:]] == [
        ("mine", 1),
        ("forwards", 1),
        ("tensors", 1),
    ]


def test_a_finding_is_shown_with_its_line_of_source() -> None:
    summary = summary_of(HandMadeRun(findings=(exploding(),)))
    placed = msgspec.structs.replace(summary, sources={"model.py:88": "x = self.attn(x)"})
    assert "  --> model.py:88\n      x = self.attn(x)\n" in text.full(placed)


def test_the_whole_lists_what_was_not_seen() -> None:
    blind = tuple(Blind(step=0, what=f"layer{i}", reason="compiled") for i in range(7))
    lines = text.state_lines(summary_of(HandMadeRun(blind=blind)))
    named = ", ".join(f"layer{i}" for i in range(text.MAX_BLIND))
    assert f"  not observed: {named}: compiled" in lines
    assert "  not observed: 2 more (mothtrap show --format json --all lists all)" in lines


def test_ranks_are_shown_as_ranges() -> None:
    assert "ranks 0-1, 5" in text.full(
        summary_of(HandMadeRun(findings=(exploding(workers=(5, 0, 1)),)))
    )
