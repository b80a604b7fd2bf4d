"""The record of a run on the page: answers, labels, and figures that do no harm."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from tests.web.conftest import Site, Watched
from tests.web.made_runs import MadeRun

from mothtrap.core.fact import Fact
from mothtrap.core.ledger import Ledger
from mothtrap.session.record.keeper import RecordKeeper
from mothtrap.session.record.logging import RecordLog
from mothtrap.store.layout import write_ledger

AXE = Path(__file__).parent / "vendor" / "axe.min.js"
CALLS_HOME = """<p id="here">drawn</p><script>
const tell = (text) => { document.getElementById("here").textContent += " " + text; };
fetch("HOME/a").catch(() => tell("no fetch"));
new Image().src = "HOME/b";
try { tell(parent.document.title); } catch { tell("no parent"); }
try { tell(document.cookie); } catch { tell("no cookie"); }
try { localStorage.x = 1; } catch { tell("no storage"); }
fetch("../api/runs").catch(() => tell("no api"));
tell(typeof RTCPeerConnection);
</script><iframe src="HOME/c"></iframe><link rel="stylesheet" href="HOME/d">"""
GOES_AWAY = '<p>before</p><script>location = "HOME/away";</script>'
ENDLESS = "<script>for (;;) {}</script>"


class Sink:
    """Takes facts, as the notes of a step do."""

    def __init__(self) -> None:
        self.facts: list[Fact] = []

    def observe(self, observation: Fact, *, may_be_next: bool = False) -> None:
        self.facts.append(observation)

    def blind(self, step: int, what: str, reason: str) -> None:
        raise AssertionError(reason)


class Home:
    """A server that must receive no request."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                self.asked.append(connection.recv(1000))

    def close(self) -> None:
        self._listener.close()


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    """A listener on this machine."""
    made = Home()
    yield made
    made.close()


@pytest.fixture(scope="module")
def site(home: Home, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server over a run with a record, and a second run."""
    runs = tmp_path_factory.mktemp("record") / "runs"
    for name in ("plain", "recorded"):
        made = MadeRun(runs / name)
        made.train([3.0, 2.0, 1.0])
        facts: dict[str, Any] = {"parameters": {"lr": 0.5, "<b>name": "<script>"}}
        facts["versions"] = {"torch": "2.13"}
        ledger = Ledger(
            created_s=time.time(), rank=0, framework="torch", arguments=(), cwd="/", facts=facts
        )
        if name == "recorded":
            write_ledger(made.folder, ledger)
            made.tell(*logged_everything(made.folder, home.address))
        made.end()
    served = Site(runs)
    served.start()
    yield served
    served.stop()


def logged_everything(worker: Path, home: str) -> list[Fact]:
    sink = Sink()
    kept = RecordKeeper(sink, lambda: 3, lambda text: None)
    kept.open(worker)
    log = RecordLog(kept)
    log.log_text("sample", "<img src=x onerror=alert(1)>")
    log.log_table("rows", {"a": [1, 2], "b": ["x", None]})
    log.log_image("picture", np.zeros((4, 4, 3), np.uint8))
    log.log_predictions(np.array([0, 1, 1]), np.array([0.1, 0.9, 0.4]), "test", ["no", "yes"])
    log.log_figure("calls home", CALLS_HOME.replace("HOME", home))
    log.log_figure("goes away", GOES_AWAY.replace("HOME", home))
    log.log_figure("endless", ENDLESS)
    log.log_figure("loads", {"mark": "bar", "data": {"url": f"{home}/data.json"}})
    return sink.facts


def listed(site: Site, query: str) -> list[dict[str, Any]]:
    """Return the rows that a query asks for, once all were read."""
    while True:
        page = site.json(f"/api/runs?query={quote(query)}")["page"]
        if not page["pending"]:
            found: list[dict[str, Any]] = page["rows"]
            return found


def test_the_record_is_answered_and_labels_are_left(site: Site) -> None:
    found = site.json("/api/record?run=recorded")
    assert found["told"]["record"]["parameters"]["lr"] == 0.5
    assert found["answers"]["packages"] == "torch 2.13"
    numbers = {item["name"]: item["number"] for item in found["told"]["record"]["items"]}
    status, headers, data = site.ask(f"/api/item?run=recorded&number={numbers['picture']}")
    assert (status, headers["content-type"], data[:4]) == (200, "image/png", b"\x89PNG")
    text = site.ask(f"/api/item?run=recorded&number={numbers['sample']}")
    assert text[1]["content-type"].startswith("text/plain")
    assert site.ask(f"/api/item?run=recorded&number={numbers['calls home']}")[1][
        "content-type"
    ].startswith("application/octet-stream")
    assert site.ask("/api/item?run=recorded&number=99")[0] == 404
    for kind, label in (("tag", "baseline"), ("group", "sweep")):
        body = json.dumps({"text": label}).encode()
        asked = f"/api/control/{kind}?run=recorded"
        assert site.ask(asked, "POST", body, X_Mothtrap="1")[0] == 200
        assert site.ask(asked, "POST", body)[0] == 403
    rows = listed(site, "lr > 0.4")
    assert [(row["name"], row["tags"], row["group"]) for row in rows] == [
        ("recorded", ["baseline"], "sweep")
    ]
    assert listed(site, "lr > 0.4 and not baseline") == []
    assert site.ask("/api/runs?query=lr%20%3E")[0] == 400
    csv = site.ask("/api/runs.csv?query=baseline")[2].decode()
    assert csv.splitlines()[0].startswith("run,kind,started")
    assert len(csv.splitlines()) == 2
    site.ask("/api/control/archive?run=plain", "POST", b"{}", X_Mothtrap="1")
    assert [row["name"] for row in listed(site, "")] == ["recorded"]
    assert len(listed(site, "archived")) == 1


def test_a_figure_is_a_document_in_a_sandbox(site: Site, home: Home) -> None:
    numbers = {
        item["name"]: item["number"]
        for item in site.json("/api/record?run=recorded")["told"]["record"]["items"]
    }
    address = f"/figure/{numbers['calls home']}?run=recorded"
    status, headers, data = site.ask(address)
    assert status == 200
    assert "sandbox=" in data.decode()
    assert "drawn" not in data.decode()
    assert headers["content-security-policy"].startswith("default-src 'none'; frame-src 'self'")
    status, headers, data = site.ask(f"{address}&inside=1")
    assert b"drawn" in data
    policy = headers["content-security-policy"]
    assert policy.startswith("sandbox allow-scripts; default-src 'none'")
    assert "allow-same-origin" not in policy
    assert "connect-src" not in policy
    assert site.ask(f"{address}&inside=1", Authorization=None)[0] == 401
    assert site.ask(f"/figure/{numbers['sample']}?run=recorded&inside=1")[0] == 400
    pytest.importorskip("vl_convert")
    data = site.ask(f"/figure/{numbers['loads']}?run=recorded&inside=1")[2]
    assert b"cannot be drawn" in data
    assert home.asked == []


def test_the_view_shows_everything_and_figures_do_no_harm(
    browser: Any, site: Site, home: Home
) -> None:
    context = browser.new_context(viewport={"width": 1300, "height": 900})
    seen = Watched(context.new_page(), site.origin)
    page = seen.page
    page.goto(site.url("#/record?run=recorded"))
    page.get_by_role("heading", name="Parameters").wait_for()
    page.get_by_role("row", name="lr 0.5").wait_for()
    page.get_by_text("<img src=x onerror=alert(1)>").wait_for()
    page.get_by_role("region", name="Confusion matrix of test").wait_for()
    page.get_by_role("img", name="ROC: area yes 1").wait_for()
    page.get_by_label("Text").fill("from the page")
    page.get_by_role("button", name="Note", exact=True).click()
    page.get_by_role("listitem").filter(has_text="from the page").wait_for()
    page.evaluate(AXE.read_text())
    found = page.evaluate("axe.run(document, {iframes: false})")
    assert [each["id"] for each in found["violations"]] == []
    seen.assert_quiet()
    buttons = page.get_by_role("button", name="Show this figure")
    assert buttons.count() == 3
    buttons.first.click()
    inside = page.frame_locator("iframe[title='Figure calls home']")
    inside.get_by_text("no fetch").wait_for()
    inside.get_by_text("no api").wait_for()
    said = str(inside.locator("#here").text_content())
    for word in ("no parent", "no cookie", "no storage", "undefined"):
        assert word in said
    with page.expect_event("console"):  # the policy of the page forbids to go there
        buttons.first.click()
    buttons.first.click()  # the endless one
    page.get_by_role("link", name="Curves", exact=True).click()
    page.get_by_role("listbox", name="Scalars").wait_for()
    assert (home.asked, seen.errors) == ([], [])
    alone = context.new_page()
    alone.goto(f"{site.origin}/figure/5?run=recorded")
    alone.wait_for_timeout(500)
    assert alone.url.endswith("/figure/5?run=recorded")
    assert home.asked == []
    context.close()
