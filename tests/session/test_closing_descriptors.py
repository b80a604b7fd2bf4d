"""A script that closes all descriptors closes its own, and none that mothtrap uses."""

from __future__ import annotations

from pathlib import Path

from tests.harness.running import MOTHTRAP, environment, run

SCRIPT = """
import os, socket, threading, time
import torch

model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(5):
    optimizer.zero_grad()
    model(torch.ones(2, 3)).sum().backward()
    optimizer.step()

written, ends = open("written", "wb"), os.pipe()
number = socket.socket().detach()

def is_open(number):
    try:
        os.fstat(number)
    except OSError:
        return False
    return True

if os.fork() == 0:
    read = os.open(__file__, os.O_RDONLY)
    os.closerange(3, 1 << 30)
    os._exit(is_open(read))
child = os.wait()[1]
os.closerange(3, 1 << 30)
print(child, [is_open(each) for each in (written.fileno(), *ends, number)])
"""


def test_a_script_closes_its_files_pipes_and_sockets(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT, encoding="utf-8")
    seen = run([*MOTHTRAP, "run", script], cwd=tmp_path, env=environment())
    assert seen.stdout.splitlines()[0] == "0 [False, False, False, False]", seen.stderr
