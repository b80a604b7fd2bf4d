"""The page in a real browser: every view of every kind of run, keyboard, screen readers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from tests.web.conftest import TOKEN, Site, Watched, until
from tests.web.looking import assert_accessible, wait_until_read
from tests.web.made_runs import MadeRun, exploding

from mothtrap.core.config import Config
from mothtrap.monitor.catalogue import load_rules
from mothtrap.web import static_files

HOSTILE_RUN = "a&b=c%2F#'\""
MOST_REQUESTS = 20
RECORD_TEXTS = """
window.drawnTexts = [];
const draw = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, ...place) {
    window.drawnTexts.push(text);
    return draw.call(this, text, ...place);
};
"""
VIEWS = ("overview", "findings", "curves", "record", "logs")
SAID = {
    "healthy": "Nothing wrong was found in 120 steps",
    "nan": "Gradient norm 3.1e+04 is 410x its median",
    "crashed": "The job stopped without closing its run",
    "live": "2 rules ok, 1 needs more data; the job is still running.",
    "empty": "Nothing was observed",
    "wide": "Exploding gradient",
    HOSTILE_RUN: "Exploding gradient",
}


def open_view(watched: Watched, site: Site, view: str, run: str = "", more: str = "") -> Any:
    """Open a view of a run, and wait until it is shown."""
    page = watched.page
    query = f"?run={quote(run, safe='')}{more}" if run else (f"?{more}" if more else "")
    page.goto(site.url(f"#/{view}{query}"))
    wait_until_read(page)
    return page


@pytest.mark.parametrize("run", list(SAID))
def test_every_view_of_a_run_says_what_there_is(watched: Watched, site: Site, run: str) -> None:
    page = open_view(watched, site, "overview", run)
    assert TOKEN not in page.url
    verdict = page.get_by_role("region", name="Verdict")
    verdict.get_by_text(re.compile(re.escape(SAID[run]), re.IGNORECASE)).first.wait_for()
    page.get_by_role("link", name=re.compile("^Findings")).click()
    page.get_by_role("heading", name="Rules").or_(page.get_by_text("No rule has")).first.wait_for()
    if run != "empty":  # without data it has neither
        page.get_by_role("link", name="Curves", exact=True).click()
        page.get_by_role("listbox", name="Scalars").wait_for()
        page.get_by_role("img", name=re.compile(r"loss \(")).wait_for()
    page.goto(site.url(f"#/logs?run={quote(run, safe='')}"))
    page.get_by_role("log").or_(page.get_by_text("No output was stored")).first.wait_for()
    page.get_by_role("link", name="Runs").click()
    page.get_by_role("link", name=run, exact=True).wait_for()


def test_a_crash_shows_the_end_of_the_output(watched: Watched, site: Site) -> None:
    page = open_view(watched, site, "overview", "crashed")
    page.get_by_role("region", name="End of the output").get_by_text("MemoryError").wait_for()
    page.get_by_role("link", name="All lines").click()
    page.get_by_role("log").wait_for()


def test_the_rules_are_one_line(watched: Watched, site: Site) -> None:
    page = open_view(watched, site, "overview", "nan")
    rules = page.get_by_role("heading", name="Rules", exact=True).locator("xpath=..")
    rules.get_by_text("2 errors").wait_for()
    rules.get_by_text("1 needs more data").wait_for()
    assert not rules.get_by_role("table").is_visible()


def test_every_family_of_rules_has_a_name() -> None:
    view = (Path(static_files.__file__).parent / "static/views/overview.js").read_text()
    named = re.findall(r"\b([A-Z]{3}): ", view)
    assert {rule.code[:3] for rule in load_rules(Config())} <= set(named)


def test_ticks_of_steps_are_whole_numbers(watched: Watched, site: Site) -> None:
    watched.page.add_init_script(RECORD_TEXTS)
    page = open_view(watched, site, "overview", "wide")
    page.get_by_role("img", name=re.compile("^Loss, steps 0 to 3")).wait_for()
    drawn = page.evaluate("window.drawnTexts")
    assert {"0", "1", "2", "3"} <= set(drawn)
    assert "0.5" not in drawn


def test_the_first_screen_comes_with_few_requests(watched: Watched, site: Site) -> None:
    asked: list[str] = []
    watched.page.on("request", lambda request: asked.append(request.url))
    page = open_view(watched, site, "overview", "nan")
    page.get_by_role("img", name=re.compile("^Loss")).wait_for()
    assert len(asked) <= MOST_REQUESTS, asked


def test_from_the_verdict_to_the_line_and_the_command_in_three_clicks(
    watched: Watched, site: Site
) -> None:
    page = open_view(watched, site, "runs")
    page.get_by_role("link", name="nan", exact=True).click()
    page.get_by_role("heading", level=1, name=re.compile("Exploding gradient")).wait_for()
    page.get_by_text("clip_grad_norm_(parameters, 1.0)").first.wait_for()
    page.get_by_role("link", name="Explanation and source line").click()
    page.locator(".source .here", has_text="loss = model(x).log().mean()").wait_for()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=site.origin)
    page.get_by_role("button", name="Copy: mothtrap rule GRD101").click()
    page.get_by_role("button", name="Copy: mothtrap rule GRD101").get_by_text("Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == "mothtrap rule GRD101"


def test_the_whole_way_by_keyboard(watched: Watched, site: Site) -> None:
    page = open_view(watched, site, "overview", "nan")
    press = page.keyboard.press
    press("?")
    page.get_by_role("dialog").get_by_text("Go to Findings").wait_for()
    press("Escape")
    page.get_by_role("dialog").wait_for(state="hidden")
    press("g")
    press("f")
    page.get_by_role("heading", level=2, name=re.compile("Exploding gradient")).wait_for()
    press("n")
    page.get_by_role("heading", level=2, name=re.compile("Non-finite loss")).wait_for()
    press("p")
    page.get_by_role("heading", level=2, name=re.compile("Exploding gradient")).wait_for()
    press("g")
    press("c")
    page.get_by_role("img", name=re.compile(r"loss \(")).focus()
    press("Home")
    page.get_by_text("step 40", exact=True).first.wait_for()
    press("ArrowRight")
    page.get_by_text("step 41", exact=True).first.wait_for()
    press("Shift+ArrowRight")
    page.get_by_text("step 51", exact=True).first.wait_for()
    assert "at step 51: NaN" in page.locator("[aria-live=polite]").inner_text()
    press("t")
    page.get_by_role("region", name="Values of the chart").wait_for()
    press("w")
    page.get_by_role("button", name="All steps").wait_for()
    assert "from=" in page.url
    press("Escape")
    page.get_by_role("button", name="All steps").wait_for(state="detached")
    press("/")
    page.keyboard.type("blocks.2")
    press("Escape")
    tensors = page.get_by_role("listbox", name="Tensors")
    tensors.focus()
    press("Space")
    page.get_by_role("img", name=re.compile("blocks.2.weight")).wait_for()
    press("g")
    press("r")
    page.get_by_role("heading", level=1, name=re.compile("^Runs")).wait_for()


def test_a_link_opens_what_it_was_copied_from(watched: Watched, site: Site) -> None:
    name = quote("train/gradient.l2/blocks.1.weight", safe="")
    more = f"&name={name}&from=30&to=50&scale=log&at=40"
    page = open_view(watched, site, "curves", "nan", more)
    drawn = re.compile(r"gradient norm of blocks\.1\.weight, steps 30 to 49")
    page.get_by_role("img", name=drawn).wait_for()
    assert page.get_by_label(re.compile("^y axis")).input_value() == "log"
    page.get_by_text("step 40", exact=True).first.wait_for()


def test_ten_thousand_tensors_are_a_list_of_the_rows_in_sight(watched: Watched, site: Site) -> None:
    page = open_view(watched, site, "curves", "wide")
    tensors = page.get_by_role("listbox", name="Tensors")
    tensors.get_by_role("option").first.wait_for()
    assert tensors.get_by_role("option").count() < 60
    assert tensors.get_by_role("option").first.get_attribute("aria-setsize") == "10000"
    page.get_by_role("searchbox").fill("blocks.*9.weight")
    page.get_by_role("heading", name="Tensors 1,000").wait_for()
    tensors.get_by_role("option", name="blocks.9.weight", exact=True).click()
    page.get_by_role("img", name=re.compile("blocks.9.weight")).wait_for()


def test_names_of_a_hostile_run_stay_text(watched: Watched, site: Site) -> None:
    for view in VIEWS:
        page = open_view(watched, site, view, HOSTILE_RUN)
        assert page.locator("main img").count() == 0
    page.get_by_text("</script><img", exact=False).first.wait_for()


def test_a_rule_is_made_of_a_curve_and_shows_where_it_would_have_fired(
    watched: Watched, site: Site
) -> None:
    page = open_view(watched, site, "curves", "nan", "&name=train/gradient.l2/blocks.1.weight")
    page.get_by_text("Make this a rule").click()
    page.get_by_label("limit").fill("100")
    page.get_by_label("captured steps in a row").fill("2")
    page.get_by_role("button", name="Show where it would have fired").click()
    page.get_by_text("It would have fired once in this run.").wait_for()
    page.get_by_role("button", name="step 40").click()
    page.get_by_role("img", name=re.compile("1 firings of the rule marked")).wait_for()
    command = re.compile(
        r"mothtrap condition \S+ gradient:blocks.1.weight --statistic l2 --above 100"
    )
    page.get_by_text(command).wait_for()
    page.get_by_text("mothtrap run --rules my_rules.py train.py --lr 0.1").wait_for()
    page.reload()  # the rule is part of the address
    page.get_by_text("It would have fired once in this run.").wait_for()
    page.get_by_role("button", name="Clear").click()
    page.get_by_text("It would have fired once").wait_for(state="detached")


def test_output_is_searched_and_only_rows_in_sight_are_drawn(watched: Watched, site: Site) -> None:
    page = open_view(watched, site, "logs", "healthy")
    page.get_by_text("epoch 299:", exact=False).wait_for()
    page.get_by_text("300 lines").wait_for()
    assert page.locator(".line").count() < 100
    page.get_by_role("searchbox").fill("epoch 17:")
    page.get_by_text("1 line", exact=True).wait_for()
    page.get_by_role("searchbox").fill("nothing like it")
    page.get_by_text("No line matches.").wait_for()


def test_a_list_that_goes_while_it_scrolls_does_no_harm(watched: Watched, site: Site) -> None:
    page = open_view(watched, site, "logs", "healthy")
    page.get_by_text("epoch 299:", exact=False).wait_for()
    page.get_by_role("searchbox").evaluate(
        """async (box) => {
            document.querySelector(".rows").scrollTop = 0;
            box.value = "nothing like it";
            box.dispatchEvent(new Event("input", { bubbles: true }));
        }"""
    )
    page.get_by_text("No line matches.").wait_for()


def test_ticked_runs_share_a_canvas_colored_by_a_parameter(watched: Watched, site: Site) -> None:
    page = open_view(watched, site, "runs")
    page.get_by_role("checkbox", name="Plot healthy").check()
    page.get_by_role("checkbox", name="Plot nan").check()
    page.get_by_role("img", name=re.compile("train.loss of 2 runs")).wait_for()
    page.get_by_label("color by").select_option("lr")
    page.get_by_text("lr 0.1").wait_for()
    assert page.url.count("tick=") == 2


def test_a_filter_without_a_match_says_so(watched: Watched, site: Site) -> None:
    page = open_view(watched, site, "runs")
    page.get_by_role("searchbox").fill("zzz")
    page.get_by_text("No run matches.").wait_for()


@pytest.mark.parametrize(
    ("scheme", "rules"),
    [("light", "{}"), ("dark", "{runOnly: ['color-contrast']}")],  # the rest is the same
    ids=["light", "dark"],
)
def test_axe_finds_nothing_in_any_view(browser: Any, site: Site, scheme: str, rules: str) -> None:
    context = browser.new_context(color_scheme=scheme, viewport={"width": 1300, "height": 900})
    watched = Watched(context.new_page(), site.origin)
    places = [("runs", "", "tick=healthy&tick=nan"), *((view, "nan", "") for view in VIEWS)]
    places += [("overview", "healthy", ""), ("overview", "empty", ""), ("findings", "wide", "")]
    places += [("overview", "crashed", "")]
    places += [
        ("samples", "values", "&at=8&sample=img000.png"),
        ("compare", "healthy", "&with=nan"),
    ]
    places += [("tensors", "values", "&tensor=activation:attn"), ("tensors", "nan", "")]
    places += [("layers", "nan", "&row=blocks.1.weight&at=40"), ("layers", "empty", "")]
    for view, run, more in places:
        page = open_view(watched, site, view, run, more)
        assert_accessible(page, rules, (view, run))
    context.close()
    watched.assert_quiet()


def test_options_that_go_with_findings_are_asked_for_when_opened(
    watched: Watched, site: Site
) -> None:
    page = open_view(watched, site, "runs")
    page.get_by_text("Parameters associated with findings").click()
    table = page.get_by_role("columnheader", name="Other runs")
    table.or_(page.get_by_text("Nothing to compare")).first.wait_for()


def test_a_boosted_model_has_rounds_and_features(browser: Any, tmp_path: Path) -> None:
    run = MadeRun(tmp_path / "boosted")
    run.boost([0.5 + 0.01 * number for number in range(20)])
    run.find(exploding(3, "refund_sent"))
    run.end()
    own = Site(tmp_path)
    own.start()
    context = browser.new_context()
    watched = Watched(context.new_page(), own.origin)
    watched.page.add_init_script(RECORD_TEXTS)
    try:
        page = open_view(watched, own, "overview", "boosted")
        page.get_by_role("heading", name="Worst features").wait_for()
        page.get_by_role("region", name="Verdict").get_by_text("since round 3").wait_for()
        page.get_by_role("img", name=re.compile("^Metrics")).wait_for()
        until(lambda: "round" in page.evaluate("window.drawnTexts"))
        assert "step" not in page.evaluate("window.drawnTexts")
        assert page.get_by_role("link", name="Layers", exact=True).count() == 0
        page.goto(own.url("#/findings?run=boosted"))
        page.get_by_text("reported at round").wait_for()
    finally:
        context.close()
        own.stop()
    watched.assert_quiet()
