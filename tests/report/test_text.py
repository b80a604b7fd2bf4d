"""The texts: one line while training, the verdict, the whole."""

from __future__ import annotations

from tests.report.sick_run import HandMadeRun, exploding, rule

from mothtrap.core.facts.captures import Blind, Dropped, ToolError
from mothtrap.core.findings import RuleState, Severity
from mothtrap.report import text
from mothtrap.report.style import Style
from mothtrap.report.summary import RunSummary, summarize

GLYPHS = Style(glyphs=True)


def summary_of(run: HandMadeRun) -> RunSummary:
    return summarize(run, {"GRD101": frozenset({"NUM001"})})  # type: ignore[arg-type]


def test_a_live_finding_is_one_line_with_step_layer_and_place() -> None:
    assert text.live_line(exploding(), GLYPHS) == (
        "mothtrap: ✖ GRD101 exploding_gradient at step 71 in blocks.1.attn.q, blocks.1.attn.k: "
        "gradient norm 3.1e+04 is 410x its median over 500 steps (limit 100x) (model.py:88)"
    )


def test_a_live_line_stays_one_line_whatever_the_names_hold() -> None:
    line = text.live_line(exploding(layers=("a\nb\x1b[31m",), message="x\ry"))
    assert line.isprintable()
    assert line.isascii()


def test_many_layers_are_counted() -> None:
    line = text.live_line(exploding(layers=tuple("abcdef")))
    assert "in a, b, c and 3 more:" in line


def test_full_text_tells_causes_before_what_follows() -> None:
    nan = exploding(code="NUM001", name="nonfinite_loss", step=90, fingerprint="bbbb", layers=())
    shown = text.full(summary_of(HandMadeRun(findings=(nan, exploding(workers=(0, 1, 2))))))
    assert shown.index("GRD101") < shown.index("NUM001 nonfinite_loss")
    assert "x GRD101 exploding_gradient  blocks.1.attn.q, blocks.1.attn.k  step 71" in shown
    assert "(41 captured steps, ranks 0-2)" in shown
    assert "  --> model.py:88" in shown
    assert shown.count("  = help: clip_grad_norm_(params, 1.0)") == 1, "advice is the cause's"
    assert "  = follows from: GRD101; mend that first" in shown
    assert "  = leads to: NUM001" in shown
    assert "  = more: mothtrap rule GRD101" in shown
    assert shown.isascii()


def test_concise_text_is_one_line_per_finding_that_an_editor_can_follow() -> None:
    lines = text.concise(summary_of(HandMadeRun(findings=(exploding(),)))).split("\n")
    assert lines[0].startswith("model.py:88:1: GRD101 error: gradient norm")
    assert lines[0].endswith("(step 71)")
    assert lines[1].startswith("x: ")
    assert len(lines) == 2


def test_the_verdict_groups_rules_that_could_not_judge_by_reason() -> None:
    rules = (
        rule("A1", "first", RuleState.NOT_ENOUGH_DATA, "needs 200 steps"),
        rule("A2", "second", RuleState.NOT_ENOUGH_DATA, "needs 200 steps"),
        rule("A3", "third", RuleState.NOT_APPLICABLE, "no class loss was seen"),
        rule("A4", "fourth", RuleState.OK),
        rule("A5", "fifth", RuleState.RULE_FAILED, "KeyError: 'q'"),
    )
    lines = text.verdict_lines(summary_of(HandMadeRun(rules=rules)))
    counted = "1 rule found nothing, 2 could not judge, 1 does not apply"
    assert f"  0 errors, 0 warnings in 120 steps; {counted}" in lines
    assert "  not enough data: first, second: needs 200 steps" in lines
    assert "third" not in " ".join(lines)
    summary = summary_of(HandMadeRun(rules=rules))
    whole = text.verdict_lines(summary, whole=True)
    assert "  not applicable: 1 rule (--all says why)" in whole
    assert "third" not in " ".join(whole)
    everything = text.verdict_lines(summary, whole=True, everything=True)
    assert "  not applicable: third: no class loss was seen" in everything
    assert "--all" not in " ".join(everything)
    assert "  rule failed: A5 fifth: KeyError: 'q'" in lines
    assert lines[-1] == "  own cost: 1.3 % of the training time (0.52 s)"


def test_what_was_given_up_is_told_with_its_reasons_the_most_first() -> None:
    lost = [("tensors", 2, "late"), ("mine", 1, "its budget_mb is used up"), ("tensors", 3, "late")]
    lost += [("steps", 4, "writer queue full"), ("forwards", 1, "many"), ("tensors", 1, "rare")]
    seen = tuple(Dropped(step=0, what=what, count=n, reason=why) for what, n, why in lost)
    summary = summary_of(HandMadeRun(observed=seen, dropped=12))
    told = [line for line in text.verdict_lines(summary) if "not kept" in line]
    assert told == [
        "  not kept: tensors (5): late",
        "  not kept: steps (4): writer queue full",
        "  not kept: mine (1): its budget_mb is used up",
        "  not kept: 2 more (mothtrap show --format json says why)",
    ]
    assert [(lost.what, lost.count) for lost in summary.not_kept[2:]] == [
        ("mine", 1),
        ("forwards", 1),
        ("tensors", 1),
    ]


def test_the_verdict_says_what_its_cause_is_of_whichever_rank() -> None:
    found = exploding(workers=(1,), message="row 10 (sample 1301)")
    lines = text.verdict_lines(summary_of(HandMadeRun(findings=(found,), workers=(0, 1))))
    assert lines[1] == "  GRD101 at step 71, rank 1: row 10 (sample 1301)"
    lines = text.verdict_lines(summary_of(HandMadeRun(findings=(exploding(),))))
    assert lines[1].startswith("  GRD101 at step 71: gradient norm 3.1e+04")
    whole = text.full(summary_of(HandMadeRun(findings=(found,))))
    assert whole.count("row 10 (sample 1301)") == 1


def test_the_verdict_does_not_repeat_a_note() -> None:
    found = exploding(severity=Severity.INFO)
    lines = text.verdict_lines(summary_of(HandMadeRun(findings=(found,))))
    assert not any(line.startswith("  GRD101") for line in lines)


def test_the_verdict_gives_few_reasons_and_the_whole_report_all() -> None:
    rules = tuple(rule(f"A{i}", f"r{i}", RuleState.NOT_ENOUGH_DATA, f"why {i}") for i in range(9))
    summary = summary_of(HandMadeRun(rules=rules))
    lines = text.verdict_lines(summary)
    assert sum(": why" in line for line in lines) == text.MAX_REASONS
    assert "  not enough data: 6 other rules (mothtrap show says why)" in lines
    assert sum(": why" in line for line in text.verdict_lines(summary, whole=True)) == 9


def test_the_verdict_says_what_was_not_seen_and_what_failed() -> None:
    run = HandMadeRun(
        blind=tuple(Blind(step=0, what=f"layer{i}", reason="compiled") for i in range(7)),
        tool_errors=(ToolError(step=3, part="writer", error="OSError: full"),),
        damage=("w0/stats-00000000.arrow: batch 3: checksum",),
    )
    lines = text.verdict_lines(summary_of(run))
    assert "  not seen: layer0: compiled" in lines
    assert sum(line.startswith("  not seen: layer") for line in lines) == text.MAX_BLIND
    assert "  not seen: 2 more (mothtrap show --format json lists all)" in lines
    assert "  mothtrap failed in writer and switched it off: OSError: full" in lines
    assert "  damaged: w0/stats-00000000.arrow: batch 3: checksum" in lines


def test_an_unobserved_run_has_no_counts_and_no_cost() -> None:
    lines = text.verdict_lines(summary_of(HandMadeRun(steps=0)))
    assert len(lines) == 1
    assert lines[0].startswith("Nothing was observed")


def test_ranks_are_shown_as_ranges() -> None:
    assert "ranks 0-1, 5" in text.full(
        summary_of(HandMadeRun(findings=(exploding(workers=(5, 0, 1)),)))
    )
