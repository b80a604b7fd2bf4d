"""`mothtrap run --no-rules`: the job captures; a monitor evaluates and acts."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner
from tests.harness.running import MOTHTRAP, environment, run

from mothtrap.cli import main
from mothtrap.reader.run import open_run

SCRIPT = """
import torch

torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for step in range(12):
    x = torch.randn(8, 4)
    if step == 8:
        x[0, 0] = float("nan")
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(x), torch.zeros(8, 1)).backward()
    optimizer.step()
"""


def test_the_job_evaluates_nothing_and_a_monitor_finds_it_all(tmp_path: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "mothtrap.toml").write_text(
        '[[actions]]\ndo = ["function"]\nfunction = "reacting_functions:on_event"\n'
    )
    (tmp_path / "reacting_functions.py").write_text(
        "def on_event(event):\n"
        "    with open('called.txt', 'a') as file:\n"
        "        file.write(event.finding.code + ' ')\n"
    )
    monkeypatch.chdir(tmp_path)
    done = run(
        [*MOTHTRAP, "run", "--no-rules", "--name", "x", "train.py"],
        cwd=tmp_path,
        env=environment(),
    )
    assert done.returncode == 0, done.stderr
    assert "Rules were not evaluated" in done.stderr
    opened = open_run("runs/x")
    assert (opened.steps, opened.findings, opened.rules) == (12, (), ())
    assert not (tmp_path / "called.txt").exists()
    for command in (["show", "x"], ["ls"]):
        shown = CliRunner().invoke(main, command)
        assert "Rules were not evaluated" in shown.stdout
        assert "othing wrong" not in shown.stdout
    followed = CliRunner().invoke(main, ["monitor", "x"])
    assert followed.exit_code == 0, followed.output
    assert "ended after 12 steps" in followed.stderr
    opened = open_run("runs/x")
    assert {f.code for f in opened.findings} >= {"NUM001", "NUM005"}
    assert "input" in opened.verdict
    assert "NUM" in (tmp_path / "called.txt").read_text()
    refused = CliRunner().invoke(main, ["monitor", "x", "--executor", "no"])
    assert refused.exit_code == 2
