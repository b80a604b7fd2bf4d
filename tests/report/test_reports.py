"""Reports of one run in every format: complete, bounded, and harmless whatever the run contains."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import numpy as np
import pytest
from tests.report.faulty_run import HandMadeRun, exploding

from mothtrap.core.errors import ConfigError
from mothtrap.core.findings import Finding, RuleState, Severity
from mothtrap.core.runs import RuleStatus
from mothtrap.core.steps import Mode
from mothtrap.core.window import Series
from mothtrap.monitor.catalogue import find_rule
from mothtrap.report import chart, github, html, junit, markdown, sarif
from mothtrap.report.document import Document
from mothtrap.report.failures import Failure
from mothtrap.report.formats import FORMATS, form_of, written
from mothtrap.report.source_lines import SourceAnswer
from mothtrap.report.summary import summarize

HOSTILE = '</script><img src=x onerror=alert(1)> "quoted" & `ticks` | ]]> \x00\x1b[31m\n::error::x'


def losses(*values: float) -> tuple[Series, ...]:
    steps = np.arange(len(values), dtype=np.int64)
    return (
        Series(
            name="loss", of="", mode=Mode.TRAIN, steps_S=steps, values_S=np.array(values, float)
        ),
    )


def document(*findings: Finding, **changed: object) -> Document:
    rules = tuple(
        RuleStatus(code=code, name=name, state=state, reason=reason)
        for code, name, state, reason in (
            ("GRD101", "exploding_gradient", RuleState.ERROR, ""),
            ("NUM001", "nonfinite_loss", RuleState.OK, ""),
            ("LOS402", "loss_diverging", RuleState.NOT_ENOUGH_DATA, "3 losses of 20"),
            ("ZZZ999", "own_rule", RuleState.RULE_FAILED, "KeyError: 'x'"),
        )
    )
    run = HandMadeRun(findings=findings, rules=rules)
    summary = summarize(run, {"GRD101": frozenset({"NUM002"})})
    summary = msgspec.structs.replace(summary, sources={"model.py:88": "loss.backward()"})
    fields = {"losses": losses(3.0, 2.0, 1.0), "conditions": {"Python": "3.11"}, **changed}
    return Document(summary=summary, made_s=1.7e9, **fields)  # type: ignore[arg-type]


class Page(HTMLParser):
    """Tags, attributes and text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_says_what_where_since_when_and_what_to_do() -> None:
    page = Page(html.page(document(exploding())))
    for text in (
        *("GRD101", "exploding gradient", "since step 71", "blocks.1.attn.q"),
        *("model.py:88: loss.backward()", "clip_grad_norm_(params, 1.0)", "3 losses of 20"),
        *("KeyError: 'x'", "3.11", "gradient norm 3.1e+04"),
    ):
        assert text in page.text, text
    assert "svg" in page.tags


def test_rules_are_counted_in_the_singular_and_the_plural() -> None:
    made = document(exploding())
    more = RuleStatus(code="NUM002", name="nonfinite_gradient", state=RuleState.ERROR, reason="")
    assert "✖ 1 error · ✔ 1 ok" in html.page(made)
    rules = (*made.summary.rules, more)
    summary = msgspec.structs.replace(made.summary, rules=rules)
    assert "✖ 2 errors · ✔ 1 ok" in html.page(replace(made, summary=summary))


def test_the_page_has_no_script_and_asks_for_nothing() -> None:
    text = html.page(document(exploding()))
    page = Page(text)
    assert not {"script", "link", "iframe", "img", "object", "form"} & set(page.tags)
    names = {name for name, _ in page.attributes}
    assert not {"src", "href", "style", "action"} & names
    assert not [name for name in names if name.startswith("on")]
    policy = next(value for _, value in page.attributes if value and "default-src" in value)
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "http" not in text.replace("http-equiv", "")


def test_a_healthy_run_has_a_page_too() -> None:
    page = Page(html.page(document(losses=())))
    assert "No findings." in page.text
    assert "No loss was recorded." in page.text


def test_a_crash_without_a_finding_bears_its_sign() -> None:
    made = document()
    crashed = msgspec.structs.replace(made.summary.run, state="crashed")
    made = replace(made, summary=msgspec.structs.replace(made.summary, run=crashed))
    assert '<p class="verdict error">‼ ' in html.page(made)
    assert '<p class="verdict ">✔ ' in html.page(document())


def test_an_onset_that_is_known_as_a_range_is_drawn_as_a_range() -> None:
    ranged = exploding(step=1, evidence={"onset_at_latest": 2}, layers=("2",), workers=(1,))
    text = html.page(document(ranged))
    assert '<rect class="range error"' in text
    assert "Began at: <strong>step 1 to 2</strong> in layer <code>2</code>" in text
    assert '<rect class="range' not in html.page(document(exploding(step=1)))


def test_the_head_of_a_report_says_how_sure_it_is_and_how_much_was_watched() -> None:
    text = html.page(document(exploding(), watched=71))
    assert "120 steps, watched 71</h1>" in text
    assert "confidence high</p>" in text
    assert "watched" not in html.page(document(exploding()))


def test_a_crash_is_explained_with_its_fix_before_a_warning() -> None:
    made = document(exploding(severity=Severity.WARNING))
    failure = Failure(
        step=9, kind="shape", error="RuntimeError: x", sentence="fc got (2, 3)", fixes=("use `4`",)
    )
    ending = "The job ended with RuntimeError: x."
    summary = msgspec.structs.replace(
        made.summary, failures=(failure,), crash_leads=True, ending=ending
    )
    text = html.page(replace(made, summary=summary))
    assert '<p class="verdict error">‼ The job ended with RuntimeError: x.</p>' in text
    assert "<p>fc got (2, 3)</p><p><strong>Fix:</strong> use <code>4</code></p>" in text
    assert "Began at" not in text


def test_hostile_texts_stay_texts_in_every_format() -> None:
    bad = exploding(
        name=HOSTILE, message=HOSTILE, layers=(HOSTILE,), fixes=(HOSTILE,), why=HOSTILE,
        location=f"{HOSTILE}:3", evidence={HOSTILE: HOSTILE},
    )  # fmt: skip
    made = document(bad, conditions={HOSTILE: HOSTILE})
    harmless = set(Page(html.page(document(exploding()))).tags)
    assert set(Page(html.page(made)).tags) <= harmless | {"code"}
    assert "\x1b" not in html.page(made) + markdown.page(made) + github.page(made)
    assert ET.fromstring(junit.page(made)).get("failures") == "1"
    assert json.loads(sarif.page(made))["version"] == "2.1.0"
    assert len(github.page(made).splitlines()) == 1
    assert "<img" not in markdown.page(made)
    assert "\n::error::x" not in markdown.page(made)


def test_code_in_advice_is_code_in_markdown() -> None:
    told = markdown.page(document(exploding(fixes=("Compare: `x.drop(columns=[a_b])` <b>",))))
    assert "Compare: `x.drop(columns=[a_b])` &lt;b&gt;" in told
    open_ended = markdown.page(document(exploding(fixes=("a ` <b> [c]",))))
    assert r"a \` &lt;b&gt; \[c\]" in open_ended


def test_a_huge_run_stays_below_its_limit_and_the_page_says_what_is_left_out() -> None:
    effects = [
        exploding(
            code="NUM002",
            name="nonfinite_gradient",
            fingerprint=f"n{i}",
            step=80 + i,
            last_step=200 + i,
            detected_step=80 + i,
            evidence={f"value {k}": "x" * 1_900 for k in range(30)},
        )
        for i in range(200)
    ]
    text = html.page(document(exploding(fingerprint="root"), *effects))
    assert len(text.encode()) <= html.MAX_BYTES
    assert "omitted to limit the size" in text


def test_sarif_names_rules_places_and_fingerprints() -> None:
    rules = [find_rule("GRD101")]
    log = json.loads(sarif.page(document(exploding(fingerprint="f1")), rules))
    (run,) = log["runs"]
    (result,) = run["results"]
    assert (result["ruleId"], result["level"], result["ruleIndex"]) == ("GRD101", "error", 0)
    assert result["partialFingerprints"] == {"mothtrap/v1": "f1"}
    (location,) = result["locations"]
    place = location["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "model.py", "uriBaseId": "SRCROOT"}
    assert place["region"] == {"startLine": 88, "snippet": {"text": "loss.backward()"}}
    (described,) = run["tool"]["driver"]["rules"]
    assert (described["id"], described["name"]) == ("GRD101", "ExplodingGradient")
    assert described["help"]["markdown"].startswith("# GRD101")


@pytest.mark.parametrize("location", ["/etc/passwd:1", "../x.py:3", "x.py", None, "C:\\x y.py:2"])
def test_uris_of_sarif_are_relative(location: str | None) -> None:
    log = json.loads(sarif.page(document(exploding(location=location))))
    (location_of,) = log["runs"][0]["results"][0]["locations"]
    uri = location_of.get("physicalLocation", {}).get("artifactLocation", {}).get("uri", "")
    assert re.fullmatch(r"(?!/)[\w.%/-]*", uri)
    assert ".." not in uri


def test_junit_has_a_case_for_each_rule() -> None:
    suite = ET.fromstring(junit.page(document(exploding())))
    counts = {key: suite.get(key) for key in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": "4", "failures": "1", "errors": "1", "skipped": "1"}
    (failure,) = suite.iter("failure")
    assert "at model.py:88" in str(failure.text)


def test_annotations_are_ten_of_a_kind_and_escaped() -> None:
    many = [exploding(fingerprint=f"f{i}", message="50% of\nall") for i in range(15)]
    lines = github.page(document(*many)).splitlines()
    assert len(lines) == github.MOST
    assert lines[0].startswith("::error file=model.py,line=88,title=GRD101 exploding_gradient::")
    assert "50%25 of%0Aall" in lines[0]


def test_the_summary_of_a_job_is_appended(tmp_path: Path) -> None:
    path = tmp_path / "summary"
    path.write_text("before\n")
    assert github.write_summary(document(exploding()), {github.VARIABLE: str(path)})
    assert path.read_text().startswith("before\n## mothtrap: x")
    assert not github.write_summary(document(), {})


def test_every_format_is_written_and_found_by_a_name() -> None:
    for form in FORMATS:
        assert written(document(exploding()), form, ())
    names = ["r.html", "r.md", "r.sarif", "r.sarif.json", "r.xml", "r.json", None]
    forms = ["html", "markdown", "sarif", "sarif", "junit", "json", "html"]
    assert [form_of(name) for name in names] == forms
    with pytest.raises(ConfigError, match="cannot infer the format"):
        form_of("report")


def test_values_that_are_not_finite_have_a_lane_and_leave_a_gap() -> None:
    nan = float("nan")
    drawn = chart.series_chart(losses(3.0, 2.0, nan, 1.0, 0.5, float("inf")), [exploding(step=2)])
    assert drawn.count('class="line') == 2
    assert drawn.count("1 not finite") == 2
    assert "2 values are not finite" in drawn
    assert "GRD101 exploding_gradient, step 2" in drawn
    ET.fromstring(drawn)


@pytest.mark.parametrize(
    "values", [[1.0], [float("nan")], [0.0] * 5, [-1e300, 1e300], [1e-320, 1.0]]
)
def test_odd_losses_are_drawn(values: list[float]) -> None:
    ET.fromstring(chart.series_chart(losses(*values), []))


def test_buckets_keep_extremes_and_their_edges_as_the_run_grows() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=5000)
    values[1234], values[77] = 99.0, np.nan
    steps = np.arange(5000)
    first_B, low_B, high_B, odd_B = chart.buckets(steps, values, 600)
    assert len(first_B) <= 600
    assert np.nanmax(high_B) == 99.0
    assert np.nanmin(low_B) == np.nanmin(values)
    assert sum(odd_B) == 1
    width = first_B[1]
    assert width & (width - 1) == 0
    again = chart.buckets(steps[:4900], values[:4900], 600)
    assert again[0] == first_B[: len(again[0])]


def heights(drawn: str) -> list[float]:
    """Heights of the points of the line, from the top of the picture."""
    points = re.findall(r'<polyline class="line s0" points="([^"]*)"', drawn)
    return [float(pair.split(",")[1]) for each in points for pair in each.split()]


def test_no_peak_is_cut() -> None:
    drawn = heights(chart.series_chart(losses(*[2.3, 2.4] * 100, 2.53, 2.51, 2.3), []))
    assert drawn.count(min(drawn)) == 1


def test_labels_are_round_numbers_and_different() -> None:
    for values in ((2.28, 2.31, 2.534), (1e-3, 7.0, 2e4), (0.0, 22.0), (1e5, 1.0003e5)):
        drawn = chart.series_chart(losses(*values), [])
        labels = re.findall(r'text-anchor="end">([-\d.e+]+)</text>', drawn)[:-1]
        assert len({*labels}) == len(labels) >= 3, labels
    drawn = chart.series_chart(losses(2.28, 2.31, 2.534), [])
    labels = re.findall(r'text-anchor="end">([\d.]+)</text>', drawn)
    assert labels[:3] == ["2.3", "2.4", "2.5"]


def test_a_line_breaks_where_training_steps_were_not_recorded() -> None:
    [whole] = losses(3.0, 2.0, 1.5, 1.2, 1.0)
    gap = replace(whole, steps_S=np.array([0, 1, 2, 500, 501]))
    assert chart.series_chart((whole,), []).count('class="line') == 1
    assert chart.series_chart((gap,), []).count('class="line') == 2
    assert chart.series_chart((replace(gap, mode=Mode.EVAL),), []).count('class="line') == 1


def test_the_lines_around_the_place_are_shown_and_the_place_is_marked() -> None:
    lines = SourceAnswer(location="model.py:88", first=87, line=88, lines=("a = 1", "b < 2", "c"))
    text = html.page(document(exploding(), excerpts={"model.py:88": lines}))
    assert "   87  a = 1\n<mark>   88  b &lt; 2</mark>\n   89  c" in text


def test_notes_are_not_marked() -> None:
    assert "mark" not in chart.series_chart(losses(2.0, 1.0), [exploding(severity=Severity.INFO)])
