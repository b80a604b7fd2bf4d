"""`mothtrap run --replay`: the result of a replay follows the verdict, if requested."""

from __future__ import annotations

import time
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from tests.cli.stored_run import store_run
from tests.harness.running import PYTHON, observed, run
from tests.session.test_replay import keep, snapshot
from tests.store.test_layout import info

from mothtrap.core.runs import RunEnd
from mothtrap.reader.run import open_run
from mothtrap.report import html, markdown
from mothtrap.report.document import gather
from mothtrap.report.summary import summarize
from mothtrap.report.text import state_lines
from mothtrap.session import replay_at_end as module
from mothtrap.session.replay_at_end import replay_at_end
from mothtrap.store import layout

PROGRAM = """
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.ones(4, 4), torch.ones(4, 1)
with torch.no_grad():
    model.weight.fill_(1.0); model.bias.fill_(-1.0)
x[2] = -1.0
open("starts", "a").write("x")
root = torch.sqrt(model(x))
loss = nn.functional.binary_cross_entropy(torch.sigmoid(root), y)
loss.backward()
optimizer.step()
"""
PLACE = "train.py:12"


@pytest.mark.parametrize("asked", [True, False])
def test_a_crash_in_the_first_step_is_replayed_where_it_was_asked_for(
    asked: bool, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(PROGRAM, encoding="utf-8")
    options = ["--replay"] if asked else []
    words = observed([*options, "--", *PYTHON, "train.py"], runs_dir=Path("runs"), name="seen")
    ended = run(words, cwd=tmp_path)
    assert ended.returncode == 1
    verdict, _, after = ended.stderr.partition("replaying step 0")
    assert "all elements of input should be between 0 and 1" in verdict
    assert bool(after) is asked
    starts = len((tmp_path / "starts").read_text(encoding="utf-8"))
    assert (starts > 1) is asked
    if asked:
        assert "first bad: torch.sqrt\n" in after
        assert f"--> {PLACE}" in after
        assert "row 2 alone reproduces it" in after
    assert ("first bad: torch.sqrt" in shown(tmp_path / "runs" / "seen")) is asked


def shown(folder: Path) -> str:
    """Return the text of `show` for a run; both reports have the same lines about its replay."""
    opened = open_run(folder)
    summary = summarize(opened, {})
    document = gather(opened, summary)
    pages = [unescape(html.page(document)), markdown.page(document)]
    texts = ["\n".join(state_lines(summary)), *pages]
    lines = summary.replay.lines if summary.replay is not None else ()
    assert all(line in text for line in lines for text in texts)
    return texts[0]


def test_ctrl_c_skips_the_replay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "_bad_step", lambda _: 7)
    monkeypatch.setattr(module, "replay", interrupted)
    replay_at_end(tmp_path / "seen")
    assert "replay skipped; later: mothtrap replay seen --step 7" in capsys.readouterr().err


def test_nothing_is_replayed_or_printed_where_no_step_went_bad(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store_run(tmp_path / "x")
    replay_at_end(tmp_path / "x")
    assert capsys.readouterr().err == ""


def test_a_step_that_another_user_recorded_is_not_started(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A resumed run may contain attempts of another user."""
    made = info(host="elsewhere", config={}, command=("touch", "executed"), cwd=str(tmp_path))
    attempt = layout.create_run(tmp_path / "x", made)
    layout.write_end(attempt, RunEnd(exit_code=1, ended_s=time.time()))
    run_folder = attempt.parent
    bad = snapshot(
        3, cwd=str(tmp_path), command=("touch", "executed"), reason="exception: ValueError"
    )
    keep(run_folder, bad)
    replay_at_end(run_folder)
    assert "the step was recorded on another machine (elsewhere)" in capsys.readouterr().err
    assert not (tmp_path / "executed").exists()
