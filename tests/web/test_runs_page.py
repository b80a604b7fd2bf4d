"""The table of runs: columns, sorting, selected runs as curves, means of seeds, and labels."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.web.conftest import Site, Watched, until
from tests.web.looking import assert_accessible, assert_narrow, assert_sound
from tests.web.made_runs import MadeRun, exploding

from mothtrap.reader.run import open_run

SEEDS = 3
RATES = ("0.1", "0.01")


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Six runs: two learning rates with three seeds each; the last one has a finding."""
    for rate in RATES:
        for seed in range(SEEDS):
            name = f"lr{rate}-{seed}"
            command = ("python", "train.py", "--lr", rate, "--seed", str(seed))
            run = MadeRun(tmp_path / "runs" / name, command=command, created_s=1.0 + seed)
            level = float(rate) * 10 + seed
            run.train([level + 1.0 / (1 + step) for step in range(20)])
            run.find(*([exploding(12)] if name == "lr0.01-2" else []))
            run.end()
    return tmp_path / "runs"


@pytest.fixture
def own(runs: Path) -> Iterator[Site]:
    served = Site(runs)
    served.start()
    yield served
    served.stop()


@pytest.fixture
def page(browser: Any, own: Site) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 1300, "height": 900})
    seen = Watched(context.new_page(), own.origin)
    seen.page.goto(own.url("#/runs"))
    seen.page.get_by_role("link", name="lr0.1-0").wait_for()
    seen.page.get_by_text("not read yet").wait_for(state="detached")
    yield seen.page
    context.close()
    seen.assert_quiet()


def names(page: Any) -> list[str]:
    found: list[str] = page.locator(".runs-table tbody th a").all_inner_texts()
    return found


def test_metrics_and_parameters_that_differ_are_columns(page: Any) -> None:
    for title in ("loss", "lr", "seed"):
        page.get_by_role("columnheader", name=title, exact=True).wait_for()
    page.get_by_role("cell", name="1.05", exact=True).wait_for()
    page.get_by_text("Columns", exact=False).first.click()
    page.get_by_role("option", name="metric loss").click()
    page.get_by_role("columnheader", name="loss", exact=True).wait_for(state="detached")
    page.reload()
    page.get_by_role("columnheader", name="lr", exact=True).wait_for()
    assert page.get_by_role("columnheader", name="loss", exact=True).count() == 0


def test_a_click_on_a_heading_sorts_all_runs(page: Any) -> None:
    page.get_by_role("button", name="loss", exact=True).click()
    best = ["lr0.01-0", "lr0.1-0", "lr0.01-1", "lr0.1-1", "lr0.01-2", "lr0.1-2"]
    until(lambda: names(page) == best)
    page.get_by_role("button", name="loss", exact=True).click()
    until(lambda: names(page) == best[::-1])
    page.get_by_role("button", name="Verdict").click()
    until(lambda: names(page)[0] == "lr0.01-2")


def test_the_server_sorts_before_it_cuts_and_refuses_what_it_does_not_know(own: Site) -> None:
    page = own.json("/api/runs?sort=-metric.loss")["page"]
    while page["pending"]:
        page = own.json("/api/runs?sort=-metric.loss")["page"]
    losses = [row["metrics"]["loss"] for row in page["rows"]]
    assert losses == sorted(losses, reverse=True)
    assert {"id": "param.lr", "runs": 6, "varies": True} in page["columns"]
    status, _, body = own.ask("/api/runs?sort=steeps")
    assert (status, b"did you mean" in body or b"steps" in body) == (400, True)


def test_the_table_stays_while_a_filter_is_typed(page: Any) -> None:
    seen: list[int] = []
    page.route("**/api/runs?*", lambda route: (seen.append(names_count(page)), route.continue_()))
    page.get_by_role("searchbox").press_sequentially("lr0.01", delay=20)
    until(lambda: len(names(page)) == 3)
    assert seen
    assert all(seen)


def names_count(page: Any) -> int:
    return int(page.locator(".runs-table tbody tr").count())


def test_seeds_are_a_mean_with_a_band(page: Any) -> None:
    page.get_by_role("checkbox", name="Select all on this page").check()
    page.get_by_role("img", name=re.compile("train.loss of 6 runs")).wait_for()
    page.get_by_label("mean of").select_option("seed")
    legend = page.locator(".legend")
    legend.get_by_text("lr 0.1 (3 runs)").wait_for()
    legend.get_by_text("lr 0.01 (3 runs)").wait_for()
    page.locator(".chart .canvas").focus()
    page.keyboard.press("End")
    mean = 0.1 * 10 + 1 + 1 / 20  # levels 1, 2, 3 of the seeds: 2 in the middle
    page.get_by_text(f"{mean:.4g}", exact=True).first.wait_for()


def test_the_curve_under_the_pointer_says_its_run(page: Any) -> None:
    page.get_by_role("checkbox", name="Select all on this page").check()
    chart = page.locator(".chart .canvas")
    chart.wait_for()
    box = chart.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.7, box["y"] + 30)
    near = page.locator(".near span").first
    near.get_by_text("lr0.1-2").wait_for()


def test_a_loss_that_is_not_finite_leaves_its_axis_numeric(
    browser: Any, own: Site, runs: Path
) -> None:
    """With one NaN, an axis once listed the losses like words, with all their digits."""
    command = ("python", "train.py", "--lr", "0.1", "--seed", "9")
    broken = MadeRun(runs / "broken", command=command, created_s=9.0)
    broken.train([1.0, math.nan])
    broken.find()
    broken.end()
    context = browser.new_context(viewport={"width": 1300, "height": 900})
    seen = Watched(context.new_page(), own.origin)
    seen.page.goto(own.url("#/runs"))
    seen.page.get_by_role("link", name="broken").wait_for()
    seen.page.get_by_text("not read yet").wait_for(state="detached")
    seen.page.get_by_text("Parallel coordinates").click()
    axis = seen.page.locator("svg.parallel g", has_text="loss")
    axis.wait_for()
    assert axis.locator(".end").all_text_contents() == ["3.05", "0.15"]
    assert seen.page.locator("svg.parallel polyline").count() == 7
    context.close()
    seen.assert_quiet()


def test_a_run_has_one_color_whatever_else_is_shown(page: Any, own: Site) -> None:
    for name in ("lr0.1-0", "lr0.1-1", "lr0.1-2"):
        page.get_by_role("checkbox", name=f"Plot {name}").check()
    before = color_of(page, "lr0.1-2")
    page.get_by_role("checkbox", name="Plot lr0.1-0").uncheck()
    page.locator(".legend").get_by_text("lr0.1-0").wait_for(state="detached")
    assert color_of(page, "lr0.1-2") == before
    page.evaluate("location.hash = '#/compare?run=lr0.1-2&with=lr0.1-1'")
    page.get_by_role("heading", name="Curves").wait_for()
    assert color_of(page, "lr0.1-2") == before


def color_of(page: Any, run: str) -> str:
    entry = page.locator(".legend li", has_text=run)
    entry.wait_for()
    return str(entry.locator("i").evaluate("(box) => getComputedStyle(box).backgroundColor"))


def test_any_parameter_of_the_record_colors_the_curves(page: Any) -> None:
    page.get_by_role("checkbox", name="Select all on this page").check()
    page.get_by_label("color by").select_option("seed")
    page.get_by_text("seed 2").wait_for()


def test_runs_are_lines_over_their_parameters_and_metrics(page: Any) -> None:
    page.get_by_text("Parallel coordinates").click()
    picture = page.get_by_role("img", name=re.compile("6 runs over lr, seed, loss"))
    picture.wait_for()
    assert picture.locator("polyline").count() == 6
    ends = picture.locator("g", has_text="seed").locator(".end").all_text_contents()
    assert ends == ["2", "0"]
    picture.locator("polyline").first.dispatch_event("mouseenter")
    page.get_by_role("link", name=re.compile("^lr0")).first.wait_for()
    page.get_by_text("lr 0.1, seed 2", exact=False).last.wait_for()


def test_selected_runs_are_tagged_and_archived_together(page: Any, runs: Path) -> None:
    page.get_by_role("checkbox", name="Plot lr0.1-0").check()
    page.get_by_role("checkbox", name="Plot lr0.1-1").check()
    page.get_by_role("textbox", name="Text").fill("baseline")
    page.get_by_role("button", name="Tag", exact=True).click()
    page.get_by_text("Tagged: 2 runs.").wait_for()
    until(lambda: page.locator(".tag", has_text="baseline").count() == 2)
    assert open_run(runs / "lr0.1-1").labels.tags == ("baseline",)
    page.get_by_role("button", name="Archive", exact=True).click()
    page.get_by_text("Archived: 2 runs.").wait_for()
    until(lambda: len(names(page)) == 4)


def test_selected_runs_are_deleted_after_a_question(page: Any, runs: Path) -> None:
    for name in ("lr0.1-0", "lr0.1-1"):
        page.get_by_role("checkbox", name=f"Plot {name}").check()
    page.get_by_role("button", name="Delete …").click()
    question = page.get_by_role("alertdialog")
    assert question.get_by_role("listitem").all_inner_texts() == ["lr0.1-0", "lr0.1-1"]
    question.get_by_text("You cannot undo this.").wait_for()
    question.get_by_role("button", name="Keep them").click()
    question.wait_for(state="detached")
    assert (runs / "lr0.1-0").is_dir()
    page.get_by_role("button", name="Delete …").click()
    page.get_by_role("button", name="Delete 2 runs").click()
    until(lambda: len(names(page)) == 4)
    assert not (runs / "lr0.1-0").exists()
    assert page.get_by_role("region", name="Selected runs").count() == 0


def test_a_run_is_deleted_only_by_its_name_and_not_while_it_runs(own: Site, runs: Path) -> None:
    MadeRun(runs / "alive").train([1.0])
    for name, body, status in (
        ("lr0.1-0", {}, 400),
        ("lr0.1-0", {"name": "lr0.1-1"}, 400),
        ("alive", {"name": "alive"}, 409),
        ("../runs/lr0.1-0", {"name": "lr0.1-0"}, 404),
        ("lr0.1-0", {"name": "lr0.1-0"}, 200),
    ):
        text = json.dumps(body).encode()
        answer = own.ask(f"/api/control/delete?run={name}", "POST", text, x_mothtrap="1")
        assert answer[0] == status, (name, body, answer)
    assert sorted(path.name for path in runs.iterdir())[:2] == ["alive", "lr0.01-0"]
    assert not (runs / "lr0.1-0").exists()


def test_a_metric_that_is_nan_comes_last(tmp_path: Path) -> None:
    for name, loss in (("good", 0.5), ("nan", math.nan), ("bad", 2.0)):
        run = MadeRun(tmp_path / name)
        run.train([loss])
        run.end()
    served = Site(tmp_path)
    served.start()
    try:
        for sort, order in (("metric.loss", "good bad nan"), ("-metric.loss", "bad good nan")):
            page = served.json(f"/api/runs?sort={sort}")["page"]
            while page["pending"]:
                page = served.json(f"/api/runs?sort={sort}")["page"]
            assert [row["name"] for row in page["rows"]] == order.split()
    finally:
        served.stop()


def test_means_and_comparisons_of_runs_are_accessible_and_fit_a_phone(
    browser: Any, own: Site
) -> None:
    ticked = "&".join(f"tick=lr{rate}-{seed}" for rate in RATES for seed in range(SEEDS))
    compared = "&".join(f"with=lr{rate}-1" for rate in RATES)
    places = [f"#/runs?{ticked}&group=seed", f"#/compare?run=lr0.1-0&{compared}"]
    assert_sound(browser, own, places, ready="main .chart")


def test_the_question_and_the_coordinates_are_accessible_and_fit_a_phone(
    browser: Any, own: Site
) -> None:
    for width in (1300, 390):
        context = browser.new_context(viewport={"width": width, "height": 844})
        seen = Watched(context.new_page(), own.origin)
        seen.page.goto(own.url("#/runs?tick=lr0.1-0&tick=lr0.1-1"))
        seen.page.get_by_role("button", name="Delete …").click()
        seen.page.get_by_role("alertdialog").wait_for()
        seen.page.get_by_text("Parallel coordinates").click()
        seen.page.locator("svg.parallel").wait_for()
        if width == 390:
            assert_narrow(seen.page)
        else:
            assert_accessible(seen.page)
        context.close()
        seen.assert_quiet()
