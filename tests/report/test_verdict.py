"""The verdict at the end of a job: short, ordered, within 80 columns."""

from __future__ import annotations

import re

import msgspec
import pytest
from tests.report.faulty_run import HandMadeRun, exploding, rule

from mothtrap.core.facts.captures import Blind, ToolError
from mothtrap.core.facts.workers import WorkerEnded
from mothtrap.core.findings import Finding, RuleState, Severity
from mothtrap.core.runs import Overhead, RunEnd
from mothtrap.report.kept import KeptSnapshot
from mothtrap.report.style import WIDTH, Style
from mothtrap.report.summary import RunSummary, summarize
from mothtrap.report.verdict import overhead_in_short, verdict

GLYPHS = Style(glyphs=True)
EXPLAINS = {"GRD101": frozenset({"NUM001"})}
NAN = exploding(
    code="NUM001", name="nonfinite_loss", step=90, fingerprint="bbbb", layers=(), message="NaN"
)
OTHER = exploding(
    code="STR701",
    name="softmax_before_cross_entropy",
    step=0,
    fingerprint="cccc",
    layers=(),
    message="softmax goes into cross_entropy, which applies softmax itself",
    location="train.py:12",
    fixes=("Remove the softmax.",),
)
MILD = exploding(
    code="DAT508",
    name="token_ratio",
    severity=Severity.WARNING,
    step=3,
    fingerprint="dddd",
    layers=(),
    message="90 % of the tokens are 0",
    location="train.py:20",
)
JUDGED = (
    rule("NUM001", "nonfinite_loss", RuleState.OK),
    rule("LOS401", "loss_not_decreasing", RuleState.NOT_ENOUGH_DATA, "needs 200 steps"),
    rule("TRE801", "tree_depth", RuleState.NOT_APPLICABLE, "no trees"),
)


def summary_of(**fields: object) -> RunSummary:
    return summarize(HandMadeRun(**fields), EXPLAINS)  # type: ignore[arg-type]


def test_a_faulty_run_is_told_in_the_order_in_which_it_is_acted_on() -> None:
    summary = summary_of(findings=(exploding(), NAN), rules=JUDGED)
    summary = msgspec.structs.replace(summary, sources={"model.py:88": "x = self.attn(x)"})
    assert verdict(summary, GLYPHS, shown="x").split("\n") == [
        "mothtrap: ✖ GRD101 Exploding gradient in blocks.1.attn.q and 1 more since step",
        "  71: gradient norm 3.1e+04 is 410x its median over 500 steps (limit 100x).",
        "  --> model.py:88",
        "      x = self.attn(x)",
        "  led to: non-finite loss (step 90)",
        "  fix: clip_grad_norm_(params, 1.0)",
        "  2 errors in 120 steps · mothtrap added 1.2 s · mothtrap show x",
    ]


def test_a_healthy_run_ends_in_two_lines() -> None:
    assert verdict(summary_of(rules=JUDGED), GLYPHS, shown="x").split("\n") == [
        "mothtrap: Nothing wrong was found in 120 steps (1 rule ok, 1 needs more data).",
        "  mothtrap added 1.2 s · mothtrap show x",
    ]


def test_every_root_error_has_its_own_lines_and_then_every_root_warning() -> None:
    lines = verdict(summary_of(findings=(exploding(), OTHER, MILD)), GLYPHS).split("\n")
    signs = [line.strip()[:8] for line in lines if "✖" in line or "▲" in line]
    assert [sign.removeprefix("mothtrap") for sign in signs[1:]] == ["✖ GRD101", "▲ DAT508"]
    assert lines[0].startswith("mothtrap: ✖ STR701 Softmax before cross entropy since step 0:")
    assert "  --> train.py:12" in lines
    assert "  --> model.py:88" in lines
    assert "  fix: Remove the softmax." in lines
    assert "  2 errors, 1 warning in 120 steps · mothtrap added 1.2 s" in lines


def test_a_note_is_named_and_nothing_wrong_is_not_said_above_it() -> None:
    note = exploding(severity=Severity.INFO)
    text = verdict(summary_of(findings=(note,), rules=JUDGED), GLYPHS)
    assert text.startswith("mothtrap: No error or warning in 120 steps, 1 note")
    assert "  ● GRD101 Exploding gradient" in text
    assert "Nothing wrong" not in text


def test_effects_that_were_seen_before_their_cause_are_not_said_to_follow() -> None:
    early = msgspec.structs.replace(NAN, code="LOS401", name="loss_not_decreasing", step=70)
    run = HandMadeRun(findings=(exploding(), early))
    summary = summarize(run, {"GRD101": frozenset({"LOS401"})})  # type: ignore[arg-type]
    assert "  also explains: loss not decreasing" in verdict(summary)
    assert "led to:" not in verdict(summary)


def test_the_rank_is_named_where_it_is_not_the_first() -> None:
    text = verdict(summary_of(findings=(exploding(workers=(1,)),), workers=(0, 1)))
    assert "(limit 100x), rank 1." in " ".join(text.split())
    assert "1 error in 120 steps of 2 ranks" in text


def test_no_line_is_longer_than_a_terminal_whatever_is_told() -> None:
    long = "word " * 60
    summary = summary_of(
        findings=(exploding(message=long, fixes=(long,)), OTHER, MILD, NAN),
        tool_errors=(ToolError(step=3, part="writer", error=long),),
        damage=(long,),
        blind=(Blind(step=0, what="layer0", reason=long),),
        state="crashed",
        end=RunEnd(exit_code=-9, ended_s=0.0),
    )
    text = verdict(summary, GLYPHS, shown="x")
    assert max(len(line) for line in text.split("\n")) <= WIDTH
    assert "  The job was killed by signal SIGKILL after 120 steps." in text
    assert "  mothtrap failed in writer and switched it off: word" in text
    assert text.endswith("mothtrap -v show x")
    assert "  damaged: word" in text
    assert "not observed: layer0" in text


def test_a_failure_of_mothtrap_that_the_verdict_names_is_not_repeated() -> None:
    failed = tuple(ToolError(step=1, part=part, error="full disk") for part in ("rules", "writer"))
    text = " ".join(verdict(summary_of(tool_errors=failed, rules=())).split())
    assert text.count("mothtrap failed in rules") == 1
    assert "mothtrap failed in writer and switched it off: full disk" in text


def crashed(*findings: Finding) -> RunSummary:
    ended = WorkerEnded(
        step=9, steps=9, own_s=0.0, wall_s=1.0, exception="ValueError: bad x", location="train.py:7"
    )
    end = RunEnd(exit_code=1, ended_s=0.0)
    return summary_of(findings=findings, state="crashed", end=end, observed=(ended,))


def test_a_crash_leads_the_verdict_unless_a_finding_is_an_error() -> None:
    """An exception was once reported below a warning, as if the warning had ended the job."""
    summary = crashed(MILD)
    assert summary.verdict.startswith("The job ended with ValueError at train.py:7: bad x. Token")
    lines = verdict(summary, GLYPHS).split("\n")
    assert lines[0] == "mothtrap: The job ended with ValueError at train.py:7: bad x."
    assert lines[1].startswith("▲ DAT508 Token ratio since step 3")
    assert "\n".join(lines).count("bad x") == 1
    nan = crashed(NAN, MILD)
    assert nan.verdict.startswith("Non-finite loss")
    assert verdict(nan, GLYPHS).startswith("mothtrap: ✖ NUM001")


def test_color_changes_nothing_but_the_color() -> None:
    summary = summary_of(findings=(exploding(), OTHER, MILD))
    plain = verdict(summary, Style(glyphs=True))
    painted = verdict(summary, Style(glyphs=True, color=True))
    assert painted != plain
    assert re.sub(r"\x1b\[[0-9;]*m", "", painted) == plain


def test_an_unobserved_run_has_neither_counts_nor_overhead() -> None:
    text = verdict(summary_of(steps=0))
    assert text.startswith("mothtrap: Nothing was observed: a process trained")
    assert "overhead" not in text
    assert "error" not in text


@pytest.mark.parametrize(
    ("cost", "text"),
    [
        (Overhead(added_seconds=1.123, wall_seconds=60.0), "mothtrap added 1.1 s"),
        (
            Overhead(seconds=10.0, added_seconds=14.0, wall_seconds=1010.0),
            "mothtrap added 1.4 %",
        ),
        (
            Overhead(asked_ratio=0.05, asked_seconds=3.0, added_seconds=2.0, wall_seconds=60.0),
            "mothtrap added 2 s + 3 s for captures you requested",
        ),
        (
            Overhead(asked_ratio=0.05, asked_seconds=50.0, added_seconds=9.5, wall_seconds=1000.0),
            "mothtrap added 1.0 % + 5.0 % for captures you requested",
        ),
    ],
)
def test_overhead_is_one_short_figure(cost: Overhead, text: str) -> None:
    assert overhead_in_short(cost) == text


def test_a_note_of_what_has_passed_is_marked() -> None:
    passed = exploding(severity=Severity.INFO, evidence={"passed_at_step": 90})
    text = verdict(summary_of(findings=(passed,), rules=JUDGED), GLYPHS)
    assert "1 note (GRD101 exploding gradient: passed)" in " ".join(text.split())
    assert "  ● passed: GRD101 Exploding gradient in blocks.1.attn.q" in text


def test_a_script_that_ended_before_it_trained_gets_one_line() -> None:
    run = HandMadeRun(steps=0, workers=(), end=RunEnd(exit_code=1, ended_s=0.0))
    text = verdict(summarize(run, {}), shown="x")  # type: ignore[arg-type]
    assert text == "mothtrap: Nothing was observed: exit code 1 before any optimizer step."


def test_the_next_command_stands_below_the_cause_that_it_is_of() -> None:
    kept = (KeptSnapshot(step=0, reason="finding STR701", exact=True),)
    summary = summary_of(findings=(exploding(), OTHER, MILD))
    lines = verdict(msgspec.structs.replace(summary, snapshots=kept), GLYPHS).split("\n")
    place = lines.index("  fix: Remove the softmax.") + 1
    assert lines[place].startswith("  next: mothtrap replay ")
    assert sum("next:" in line for line in lines) == 1


OFF = (
    rule("ACT901", "huge_output", RuleState.RULE_FAILED, "my.py:3: ValueError: x; correct line 3"),
    rule("ACT902", "odd", RuleState.RULE_FAILED, "my.py:9: KeyError: 1"),
)


def test_rules_that_were_switched_off_are_told_before_all_else() -> None:
    lines = verdict(summary_of(findings=(exploding(),), rules=(*JUDGED, OFF[0])), GLYPHS)
    first, second = lines.split("\n")[:2]
    assert first == (
        "mothtrap: 1 rule was switched off: ACT901 huge_output (my.py:3: ValueError: x)."
    )
    assert second.startswith("mothtrap: ✖ GRD101")
    assert "rule failed: ACT901 huge_output: my.py:3: ValueError: x; correct line 3" in lines


def test_a_run_in_which_rules_were_switched_off_is_never_simply_fine() -> None:
    said = summary_of(rules=(*JUDGED, *OFF)).verdict
    assert said == (
        "2 rules were switched off: ACT901 huge_output, ACT902 odd. "
        "The other rules found nothing wrong in 120 steps (1 rule ok, 1 needs more data)."
    )
    said = summary_of(rules=OFF).verdict
    assert said == (
        "All rules were switched off: ACT901 huge_output, ACT902 odd. "
        "Nothing was evaluated in 120 steps: all rules failed."
    )


def test_rules_that_failed_alike_share_a_line() -> None:
    many = [
        rule(f"ACT{n}", "odd", RuleState.RULE_FAILED, "from step 3 on") for n in range(300, 320)
    ]
    text = verdict(summary_of(rules=tuple(many)))
    assert "rule failed: ACT300 odd, ACT301 odd, ACT302 odd, ACT303 odd and 16 more" in " ".join(
        text.split()
    )
    assert text.startswith("mothtrap: All rules were switched off (from step 3 on).")
