"""Accuracy of the recorded phase times, measured with a program that waits for known times.

The program measures each wait itself, so a busy machine does not change the result. The table has
the milliseconds per step that the program waited and that the run recorded.

Run: python bench/phases.py [--steps 200]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import mothtrap
from mothtrap.core.facts.phases import PhasesTimed

PROGRAM = """
import json, sys, time
import torch
from torch import nn

STEPS, WAITED = int(sys.argv[1]), {}


def wait(phase, seconds):
    began = time.perf_counter()
    time.sleep(seconds)
    WAITED[phase] = WAITED.get(phase, 0.0) + time.perf_counter() - began


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return STEPS

    def __getitem__(self, index):
        wait("data", 0.004)
        return torch.randn(8), index % 3


class Backward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        wait("backward", 0.009)
        return gradient.clone()


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 3)

    def forward(self, x):
        wait("forward" if self.training else "evaluation", 0.006)
        return Backward.apply(self.layer(x))


class Slow(torch.optim.SGD):
    def step(self, closure=None):
        wait("optimizer", 0.003)
        return super().step(closure)


class State(dict):
    def __reduce__(self):
        wait("save", 0.05)
        return dict, (list(self.items()),)


model = Model()
optimizer = Slow(model.parameters(), lr=0.01)
for step, (x, y) in enumerate(torch.utils.data.DataLoader(Rows(), batch_size=1)):
    output = model(x)
    wait("loss", 0.002)
    loss = nn.functional.cross_entropy(output, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    wait("other", 0.005)
    if step % 50 == 49:
        model.eval()
        with torch.no_grad():
            for _ in range(5):
                model(torch.randn(4, 8))
        model.train()
        torch.save(State(a=torch.zeros(2)), sys.argv[2])
open(sys.argv[3], "w").write(json.dumps(WAITED))
"""


def measured(steps: int, folder: Path) -> tuple[dict[str, float], dict[str, float]]:
    """Return the seconds that the program waited and that the run recorded, by phase."""
    script, waited = folder / "waiting.py", folder / "waited.json"
    script.write_text(PROGRAM)
    words = [sys.executable, str(script), str(steps), str(folder / "model.pt"), str(waited)]
    start = [sys.executable, "-m", "mothtrap", "run", "--runs-dir", str(folder), "--name", "run"]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MOTHTRAP_")}
    subprocess.run([*start, "--", *words], env=kept, check=True, capture_output=True, cwd=folder)
    recorded: defaultdict[str, float] = defaultdict(float)
    run: Any = mothtrap.open_run(folder / "run")
    for fact in run.observations(PhasesTimed):
        for phase, seconds in fact.seconds.items():
            recorded[phase] += seconds
    return json.loads(waited.read_text()), recorded


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    steps = parser.parse_args().steps
    with tempfile.TemporaryDirectory() as folder:
        waited, recorded = measured(steps, Path(folder))
    print("| phase | waited ms | recorded ms | difference |")
    print("|---|---|---|---|")
    for phase in sorted(waited | recorded):
        wait_ms, found_ms = (1e3 * each.get(phase, 0.0) / steps for each in (waited, recorded))
        print(f"| {phase} | {wait_ms:.2f} | {found_ms:.2f} | {found_ms - wait_ms:+.2f} |")


if __name__ == "__main__":
    main()
