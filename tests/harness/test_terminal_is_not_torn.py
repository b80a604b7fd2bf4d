"""On a terminal, Ctrl-C reaches the script, and a finding does not break a progress bar."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pexpect
import pytest
from tests.harness.running import ITSELF, TIMEOUT_S, environment, observed, ready
from tests.harness.terminal import lines

BAR = """
import torch
from torch import nn
from tqdm import tqdm

torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3), nn.Softmax(dim=1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = nn.CrossEntropyLoss()
for step in tqdm(range(500), mininterval=0, desc="training"):
    x = torch.randn(32, 8)
    loss = criterion(model(x), x[:, :3].argmax(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

ENDLESS = """
import torch, time
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(5):
    (model(torch.randn(8, 4)) ** 2).mean().backward()
    optimizer.step()
try:
    print("ready", flush=True)
    time.sleep(600)
finally:
    print("cleaned up", flush=True)
"""


def on_a_terminal(command: list[str], cwd: Path) -> pexpect.spawn:
    terminal = pexpect.spawn(
        command[0],
        command[1:],
        cwd=str(cwd),
        env=environment(TERM="xterm", COLUMNS="120"),
        dimensions=(50, 120),
        encoding="utf-8",
        timeout=TIMEOUT_S,
    )
    terminal.str_last_chars = 5000  # of what is shown where the time is over
    return terminal


def test_a_finding_stands_on_a_line_of_its_own_beside_a_progress_bar(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(BAR, encoding="utf-8")
    ready()
    terminal = on_a_terminal(observed([script], runs_dir=tmp_path, name="seen"), tmp_path)
    output = terminal.read()
    terminal.close()
    assert terminal.exitstatus == 0, output

    during = output[: output.rindex("500/500")]
    assert "STR701" in during, "the finding was not said while training went on"
    shown = lines(output)
    for line in shown:
        if "STR701" in line:
            assert "it/s" not in line, f"torn: {line!r}"
            assert "%|" not in line, f"torn: {line!r}"
    assert any(line.startswith("training: 100%") for line in shown)


@pytest.mark.full
@pytest.mark.parametrize("watched", [False, True], ids=["plain", "observed"])
def test_ctrl_c_ends_the_script_as_it_always_does(watched: bool, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(ENDLESS, encoding="utf-8")
    plain = [sys.executable, str(script)]
    command = (
        observed([script], runs_dir=tmp_path, name="seen", python=ITSELF) if watched else plain
    )
    terminal = on_a_terminal(command, tmp_path)
    terminal.expect_exact("ready")
    terminal.sendintr()
    output = terminal.read()
    terminal.close()
    assert "cleaned up" in output
    assert output.count("KeyboardInterrupt") == 1
    assert terminal.signalstatus == signal.SIGINT
