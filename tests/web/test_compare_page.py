"""Compare shows what was changed in the code, and the last metrics, of real runs in a browser."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.web.conftest import Site, Watched
from tests.web.made_runs import SCRIPT, MadeRun

from mothtrap.core.ledger import SourceTexts
from mothtrap.store import layout
from mothtrap.web.code_differences import MOST_LINES, code_differences


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server over three runs: the second has different code, the third has stored no code."""
    runs = tmp_path_factory.mktemp("compare") / "runs"
    texts = {"first": SCRIPT, "second": SCRIPT.replace(".log()", ".exp()"), "third": ""}
    for place, (name, text) in enumerate(texts.items()):
        run = MadeRun(runs / name, created_s=1.0 + place)
        run.train([1.0, 0.5 + place])
        if text:
            layout.write_source_texts(run.folder, SourceTexts(files={"train.py": text}))
        run.end()
    served = Site(runs)
    served.start()
    yield served
    served.stop()


@pytest.fixture
def page(browser: Any, pair: Site) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 1300, "height": 900})
    seen = Watched(context.new_page(), pair.origin)
    seen.page.goto(pair.url("#/compare?run=first&with=second&with=third"))
    yield seen.page
    context.close()
    seen.assert_quiet()


def test_changed_lines_of_the_script_are_shown(page: Any) -> None:
    changes = page.get_by_role("region", name="Changes of train.py in second")
    changes.wait_for()
    assert changes.locator(".removed").inner_text().strip() == "-loss = model(x).log().mean()"
    assert changes.locator(".added").inner_text().strip() == "+loss = model(x).exp().mean()"
    page.get_by_text("third: the script of one of the two runs is not stored.").wait_for()


def test_last_metrics_stand_beside_each_other(page: Any) -> None:
    table = page.get_by_role("region", name="Last metrics of the runs")
    table.wait_for()
    assert table.locator("tbody tr").all_inner_texts() == ["loss\t0.5\t1.5\t2.5"]


def test_a_long_difference_is_cut() -> None:
    one = "\n".join(f"a{number}" for number in range(MOST_LINES))
    two = "\n".join(f"b{number}" for number in range(MOST_LINES))
    (found,) = code_differences({"x.py": one}, {"x.py": two}) or ()
    assert len(found.lines) == MOST_LINES
    assert found.more == MOST_LINES + 1
    assert code_differences({"x.py": one}, {"x.py": one}) == ()
    assert code_differences({}, {"x.py": one}) is None
