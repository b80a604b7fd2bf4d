"""A job that no longer makes steps is reported while it is stalled."""

from __future__ import annotations

from pathlib import Path

from tests.harness.running import observed, run, show

SCRIPT = """
import time, torch
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(6):
    if step == 3:
        time.sleep(2.5)
        print("awake", flush=True)
    optimizer.zero_grad()
    model(torch.randn(8, 4)).pow(2).mean().backward()
    optimizer.step()
"""


def test_a_stall_is_told_and_becomes_a_note_when_steps_come_again(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "mothtrap.toml").write_text("[rules.RUN901]\nseconds = 0.5\n")
    done = run(observed([tmp_path / "train.py"], runs_dir=tmp_path, name="seen"), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "RUN901 stalled training at step 1: no step or evaluation for" in done.stderr
    record = show(tmp_path / "seen", cwd=tmp_path)
    [finding] = [f for f in record["findings"] if f["code"] == "RUN901"]
    assert (finding["severity"], finding["step"]) == ("info", 1)
    assert "it had ended by step" in finding["message"]


def test_without_a_stall_nothing_is_told(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT.replace("2.5", "0.0"))
    done = run(observed([tmp_path / "train.py"], runs_dir=tmp_path, name="seen"), cwd=tmp_path)
    assert "RUN901" not in done.stderr
    assert {rule["code"]: rule["state"] for rule in show(tmp_path / "seen", cwd=tmp_path)["rules"]}[
        "RUN901"
    ] == "ok"
