"""The script is kept as it was at the first step."""

from __future__ import annotations

from pathlib import Path

from tests.harness.running import observed, run

import mothtrap
from mothtrap.core.ledger import Ledger
from mothtrap.report.source_lines import lines_at
from mothtrap.session.record import source_texts
from mothtrap.store.source_digests import digests_of

PROGRAM = """
import torch
import helper

helper.PASSWORD = "hunter2hunter2"
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
"""


def test_lines_are_shown_after_the_script_was_edited(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    (tmp_path / "helper.py").write_text("PASSWORD = ''\n")
    command = observed(["train.py"], runs_dir=tmp_path / "runs", name="x")
    assert run(command, cwd=tmp_path).returncode == 0
    (tmp_path / "train.py").write_text("print('another script')\n")
    opened = mothtrap.open_run(tmp_path / "runs" / "x")
    assert set(opened.source_texts()) == {"train.py", "helper.py"}
    found = lines_at(opened, "train.py:11")
    assert found.lines[found.line - found.first] == "    optimizer.step()"
    assert "hunter2" not in opened.source_texts()["train.py"]


def test_files_that_are_too_large_or_were_changed_are_left_out(tmp_path: Path) -> None:
    texts = {"small.py": "x = 1\n", "large.py": "#" * 200_000, "changed.py": "y = 2\n"}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    ledger = Ledger(
        created_s=0.0,
        rank=0,
        framework="torch",
        arguments=(),
        cwd=str(tmp_path),
        facts={"sources": digests_of(texts, tmp_path)},
    )
    (tmp_path / "changed.py").write_text("y = 3\n")
    assert source_texts.read(ledger).files == {"small.py": "x = 1\n"}
