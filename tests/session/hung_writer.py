"""Train while writing hangs: the kind of writer and `queue_mb` are the arguments.

Prints by how many MiB the process grew in the meantime, how many MiB it captured, and how many
steps it made.
"""

import json
import os
import signal
import sys
import threading

import psutil
import torch

import mothtrap
from mothtrap import Collection

WARM_UP, STEPS = 10, 60
writer, queue_mb = sys.argv[1], float(sys.argv[2])
hung = threading.Event()
write = os.write


def stuck(file: int, data: bytes) -> int:
    if threading.current_thread().name == "mothtrap-writer":
        hung.wait()
    return write(file, data)


def memory_mb() -> float:
    return float(psutil.Process().memory_info().rss / 2**20)


def step() -> None:
    loss = model(torch.randn(8, 512)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    dbg.step(loss=loss)


torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.ReLU(), torch.nn.Linear(512, 512))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
whole = Collection(tensors=("weights", "gradients"), raw=True, statistics=("l2", "quantiles"))
with mothtrap.watch(
    model,
    optimizer,
    name="hung",
    writer=writer,
    queue_mb=queue_mb,
    capture="everything",
    overhead=0.0,
    snapshots=0,
    collections={"whole": whole},
) as dbg:
    for _ in range(WARM_UP):
        step()
    pid = None
    if writer == "process":
        pid = json.loads((dbg.path / "1" / "w0" / "writer.json").read_text())["pid"]
        os.kill(pid, signal.SIGSTOP)
    os.write = stuck
    try:
        before = memory_mb()
        grown = 0.0
        for _ in range(STEPS):
            step()
            grown = max(grown, memory_mb() - before)
    finally:
        hung.set()
        if pid is not None:
            os.kill(pid, signal.SIGCONT)
sizes = sum(parameter.nbytes for parameter in model.parameters())
captured = STEPS * 2 * sizes / 2**20
print(json.dumps({"grown_mb": grown, "captured_mb": captured, "steps": WARM_UP + STEPS}))
