"""The page on real runs: the fault, its onset, its place, the fix, and the observed share."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.web.conftest import Site, Watched, until
from tests.web.test_api import series
from tests.web.trained_runs import PROGRAMS, TRAINED, train

import mothtrap
from mothtrap.cli import main
from mothtrap.core.facts.captures import Unwatched
from mothtrap.notebook.live import strip_of

pytestmark = pytest.mark.full  # trains for a minute

VERDICTS = {
    "nan": ("Non-finite loss", "since step 22", "nan.py:25", "torch.log", "mothtrap replay"),
    "vanishing": ("Vanishing gradient", "since step 0", "vanishing.py:13", "Use ReLU"),
    "leak": (
        "Single feature dominates",
        "since round 0",
        "paid_back",
        "Train without the feature",
    ),
    "ranks": ("Diverging ranks", "between 101 and 200", "on both ranks", "on all ranks"),
    "crash": (
        "The job crashed after 30 steps",
        "IndexError",
        "crash.py:12",
        "Watched all 30 steps",
        "python -m pdb -c continue",
    ),
    "guard": ("Non-finite loss", "Skipped by the guard", "All updates skipped", "Lasted"),
    "overfit": ("Overfit", "since step", "overfit.py:33", "Stop at the best evaluation"),
    "healthy": ("Nothing wrong was found", "230 steps", "rules ok", "need more data"),
    "short": ("Nothing wrong was found", "Watched", "of 8,000 steps", "overhead budget"),
}
"""Texts that the verdict of each run has."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("xgboost", reason="the run `leak` needs it")
    folder: Path = tmp_path_factory.mktemp("trained")
    for name in TRAINED:
        train(name, folder)
    return folder


@pytest.fixture(scope="module")
def trained(folder: Path) -> Iterator[Site]:
    served = Site(folder / "runs")
    served.start()
    yield served
    served.stop()


@pytest.fixture
def page(browser: Any, trained: Site) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    seen = Watched(context.new_page(), trained.origin)
    yield seen.page
    context.close()
    seen.assert_quiet()


@pytest.mark.parametrize("name", TRAINED)
def test_the_verdict_answers_a_newcomer(page: Any, trained: Site, name: str) -> None:
    page.goto(trained.url(f"#/overview?run={name}"))
    verdict = page.get_by_role("region", name="Verdict")
    verdict.wait_for()
    until(lambda: all(text in verdict.inner_text() for text in VERDICTS[name]), within_s=20)


@pytest.mark.parametrize("name", TRAINED)
def test_nothing_overflows_on_a_phone(browser: Any, trained: Site, name: str) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844})
    phone = context.new_page()
    phone.goto(trained.url(f"#/overview?run={name}"))
    phone.get_by_role("region", name="Verdict").wait_for()
    phone.wait_for_load_state("networkidle")
    assert phone.evaluate("document.scrollingElement.scrollWidth") <= 390
    context.close()


def test_the_loss_of_every_step_is_drawn(trained: Site) -> None:
    about = trained.json("/api/run?run=short")
    assert sum(last + 1 - first for first, last in about["gaps"]) > 1000
    [curve] = series(trained, "short", about["losses"][0])[1]
    assert curve["rows"] == 8000


def test_a_crash_shows_its_line_and_traceback(page: Any, trained: Site) -> None:
    page.goto(trained.url("#/overview?run=crash"))
    page.get_by_role("region", name="Traceback").get_by_text("rows = shards[step]").wait_for()


def test_the_source_of_a_finding_stays_when_the_script_is_gone(
    page: Any, trained: Site, folder: Path
) -> None:
    """The run keeps the text, so the file may change or disappear."""
    place = folder / "runs" / "nan" / "1" / "w0" / "sources.json"
    assert "torch.log(length)" in place.read_text(encoding="utf-8")
    page.goto(trained.url("#/findings?run=nan"))
    page.get_by_role("region", name="Source").get_by_text("weight / mean").first.wait_for()


def test_the_evidence_is_the_first_layer_against_the_last(trained: Site) -> None:
    told = trained.json("/api/findings?run=vanishing")
    [story, *_] = told["stories"]
    chart = told["findings"][story["root"]]["chart"]
    assert not chart["is_context"]
    first, last = (int(each.rpartition("/")[2].split(".")[0]) for each in chart["curves"])
    assert first < last == 20


def test_ranks_are_shown_rank_by_rank(page: Any, trained: Site) -> None:
    page.goto(trained.url("#/findings?run=ranks"))
    table = page.get_by_role("region", name="Weights on each rank")
    table.wait_for()
    assert table.get_by_role("rowheader").all_inner_texts() == ["rank 0", "rank 1"]


def test_a_default_run_has_histograms(page: Any, trained: Site) -> None:
    page.goto(trained.url("#/tensors?run=healthy&tensor=gradient:0.weight&at=100"))
    page.get_by_role("heading", name="Histogram at step 100").wait_for()
    page.get_by_text("6 steps with captured exponents", exact=False).wait_for()


def test_each_unit_has_its_chart_and_the_machine_is_among_them(page: Any, trained: Site) -> None:
    page.goto(trained.url("#/curves?run=healthy"))
    page.get_by_text("loss (", exact=False).first.wait_for()
    page.get_by_role("heading", name="machine, %").wait_for()


def test_views_that_a_boosted_run_cannot_fill_are_hidden(trained: Site) -> None:
    views = trained.json("/api/run?run=leak")["views"]
    assert not {"layers", "tensors"} & {*views}


def test_metrics_are_columns_of_the_runs(page: Any, trained: Site) -> None:
    page.goto(trained.url("#/runs"))
    page.get_by_role("columnheader", name="loss").wait_for()
    page.get_by_role("table").get_by_text("Diverging ranks", exact=False).wait_for()


def test_the_report_has_source_and_evidence_and_no_replay_without_a_state(
    folder: Path, tmp_path: Path
) -> None:
    target = tmp_path / "report.html"
    words = ["report", str(folder / "runs" / "vanishing"), "-o", str(target)]
    assert CliRunner().invoke(main, words).exit_code == 0
    text = target.read_text(encoding="utf-8")
    assert "<mark>   13  " in text
    assert "<details open><summary>Evidence" in text
    assert "Gradient norm of the first and of the last layer" in text
    assert "Worst layers" in text
    assert "Replay this step" not in text


def test_findings_of_every_surface_begin_with_the_cause(folder: Path) -> None:
    run = mothtrap.open_run(folder / "runs" / "vanishing")
    assert strip_of(run)["findings"][0]["name"] == "vanishing gradient"
    assert "Vanishing gradient" in run.verdict
    assert "Vanishing gradient" in run._repr_html_()


def test_a_replay_of_the_terminal_is_on_the_page(page: Any, trained: Site, folder: Path) -> None:
    """It names the operation; so does a run whose script was changed since (`Check my change`)."""
    shutil.copy(PROGRAMS / "nan.py", folder)
    words = ["replay", str(folder / "runs" / "nan"), "--step", "22"]
    done = CliRunner().invoke(main, words)
    assert "log" in done.output
    page.goto(trained.url("#/findings?run=nan"))
    page.get_by_role("heading", name="Replay", exact=True).wait_for()
    page.get_by_text("Check my change", exact=False).wait_for()


def test_a_default_run_grows_by_little(folder: Path) -> None:
    """Sources, output, and the losses of unwatched steps are a small part of a run."""
    for name in TRAINED:
        run = mothtrap.open_run(folder / "runs" / name)
        files = [path for path in run.path.rglob("*") if path.is_file()]
        added = sum(
            path.stat().st_size
            for path in files
            if path.name == "sources.json" or path.name.startswith("output-")
        )
        added += sum(len(gap.losses) + len(gap.rates) for gap in run.observations(Unwatched))
        assert added < 100_000, name
        assert sum(path.stat().st_size for path in files) < 700_000, name
