"""Displays of a run in a notebook, executed by a kernel and rendered by a browser."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from tests.cli.stored_run import store_run

import mothtrap
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.runs import RunEnd
from mothtrap.notebook import live
from mothtrap.store import layout

HOSTILE = "<img src=x onerror=document.title='hit'>"
CELLS = (
    "import mothtrap\nrun = mothtrap.open_run('wrong')\nrun",
    "run.findings",
    "run.view()",
    "strip = run.live()\nstrip",
    "run.plot.loss()",
)
FOUND = Finding(
    code="NUM001", name="nonfinite_loss", severity=Severity.ERROR, step=0, detected_step=0,
    message="the loss is NaN", fingerprint="1",
)  # fmt: skip
MEMBERS = ("application/vnd.vegalite.v5+json", "application/vnd.jupyter.widget-view+json")


def test_a_kernel_shows_report_strip_and_chart(tmp_path: Path) -> None:
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("anywidget")
    store_run(tmp_path / "wrong", steps=30, first_loss=float("nan"), findings=(FOUND,))
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    client = nbclient.NotebookClient(
        book, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()
    run, found, view, strip, plot = (cell.outputs[0].data for cell in book.cells)
    assert "NUM001" in run["text/html"]
    assert "NUM001" in found["text/html"]
    assert view["text/html"].startswith('<iframe sandbox="" ')
    assert "NUM001 non-finite loss" in view["text/html"]
    assert MEMBERS[1] in strip
    assert plot[MEMBERS[0]]["layer"][0]["data"]["values"][0]["step"] == 0
    states = client.widget_state.values()
    [shown] = [each["shown"] for each in states if "shown" in each]
    assert shown["worst"] == "error"
    assert shown["loss"][0] == [0, None]


class Strip:
    """A widget as seen by the thread that updates it; the job ends as soon as it is shown."""

    comm = object()

    def __init__(self, attempt: Path) -> None:
        self._attempt, self.told = attempt, []

    def observe(self, call: object, names: str) -> None:
        """No front end closes this one."""

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "shown":
            self.told.append(value)
            layout.write_end(self._attempt, RunEnd(exit_code=0, ended_s=time.time()))


def test_a_strip_follows_the_run_until_it_has_ended(tmp_path: Path) -> None:
    store_run(tmp_path / "a", steps=30)
    [end] = tmp_path.rglob("end.json")
    end.unlink()
    run, strip = mothtrap.open_run(tmp_path / "a"), Strip(end.parent)
    live._keep_up(strip, run, 0.0)
    assert [each["state"] for each in strip.told] == ["running", "finished"]
    begun = strip.told[0]
    assert (begun["steps"], begun["worst"], len(begun["loss"])) == (30, "ok", 30)
    assert json.loads(json.dumps(begun)) == begun


def test_a_browser_draws_what_the_run_shows_and_obeys_no_text_of_it(browser: Any) -> None:
    first = {"run": HOSTILE, "state": "running", "steps": 4, "verdict": HOSTILE, "worst": "ok",
             "findings": [], "loss": [[0, 1.0], [1, 0.5], [2, None], [3, 0.1]]}  # fmt: skip
    then = first | {
        "verdict": "Non-finite loss", "worst": "error", "steps": 1234,
        "findings": [{"severity": "error", "name": HOSTILE, "step": 2, "since": "step 2",
                      "layer": "0"}],
    }  # fmt: skip
    module = live.MODULE.read_text(encoding="utf-8")
    stub = f"""
      const heard = new Set();
      const model = {{ state: {json.dumps(first)}, get() {{ return this.state; }},
        on(name, call) {{ heard.add(call); }}, off(name, call) {{ heard.delete(call); }} }};
      window.put = (state) => {{ model.state = state; heard.forEach((call) => call()); }};
      window.heard = heard;
      const {{ default: widget }} = await import(window.module);
      window.stop = widget.render({{ model, el: document.body }});"""
    page = browser.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda err: said.append(str(err)))
    page.set_content("<title>quiet</title><body></body>")
    page.evaluate(
        "(text) => { window.module = URL.createObjectURL("
        "new Blob([text], { type: 'text/javascript' })); }",
        module,
    )
    page.add_script_tag(content=stub, type="module")
    page.wait_for_selector("svg path")
    assert HOSTILE in page.inner_text("p")
    assert page.locator("svg rect").count() == 1
    page.evaluate("(state) => window.put(state)", then)
    assert "1,234 steps" in page.inner_text("section")
    assert "since step 2 in 0" in page.inner_text("li")
    assert page.locator("svg line").count() == 1
    assert page.locator("img").count() == 0
    page.evaluate("() => window.stop()")
    assert page.evaluate("() => window.heard.size") == 0
    assert page.title() == "quiet"
    assert said == []
