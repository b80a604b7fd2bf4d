"""Light steps in whole runs: their numbers on each rank, and what is visible of them later."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.harness.running import MOTHTRAP, PYTHON, observed, run

import mothtrap
from mothtrap.core.facts.captures import FullSteps
from mothtrap.core.measured import DIGEST

RANKS = """
import time
import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = nn.parallel.DistributedDataParallel(nn.Linear(8, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(130):
    generator = torch.Generator().manual_seed(2 * step + rank)
    x = torch.randn(8, 8, generator=generator) * (100 if rank and step == 97 else 1)
    y = torch.randint(0, 3, (8,), generator=generator)
    time.sleep(0.005 * rank)
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
dist.destroy_process_group()
"""
FLIPPED = """
import sys
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(110):
    x, y = torch.rand(8, 8), torch.randint(0, 3, (8,))
    if step == 85 and sys.argv[1] == "input":
        x.view(torch.int32)[3, 4] ^= 1 << 20
    if step == 85 and sys.argv[1] == "weight":
        model[0].weight.data.view(torch.int32)[3, 4] ^= 1 << 20
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
"""

LOADED = """
import os
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

class Rows(Dataset):
    def __len__(self):
        return 1640

    def __getitem__(self, index):
        return torch.full((64,), float(index)), index % 3

def held():
    with open("/proc/self/statm") as file:
        pages = int(file.read().split()[1])
    return len(os.listdir("/proc/self/fd")), pages * os.sysconf("SC_PAGE_SIZE")

if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = nn.Linear(64, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-5)
    loader = DataLoader(Rows(), batch_size=4, num_workers=2)
    for step, (x, y) in enumerate(loader):
        large = torch.zeros(2**20)  # 4 MB, of which the model is given 1 kB
        large[:256] = x.reshape(-1)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(large[:256].view(4, 64)), y).backward()
        optimizer.step()
        if step in (270, 405):  # a ring has 256 steps at most
            print(*held())
"""


def trained(
    folder: Path, text: str, name: str, *words: str, launcher: tuple[str, ...] = ()
) -> Path:
    script = folder / "train.py"
    script.write_text(text, encoding="utf-8")
    command = observed(["--", *PYTHON, *launcher, script, *words], runs_dir=folder, name=name)
    outcome = run(command, cwd=folder)
    assert outcome.returncode == 0, outcome.stderr
    return folder / name


def test_two_ranks_have_the_same_full_steps(tmp_path: Path) -> None:
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
    seen = mothtrap.open_run(trained(tmp_path, RANKS, "seen", launcher=launcher))
    full = [
        {int(step) for series in seen.scalars(DIGEST, worker=rank) for step in series.steps_S}
        for rank in seen.workers
    ]
    assert len(full) == 2
    assert full[0] == full[1]
    assert sorted(full[0])[64:] == [70, 71, 80, 81, 90, 91, 100, 101, 110, 111, 120, 121]
    assert {fact.every for fact in seen.observations(FullSteps)} == {10}


@pytest.mark.parametrize("flipped", ["input", pytest.param("weight", marks=pytest.mark.full)])
def test_a_flipped_bit_in_a_light_step_is_not_told_of_a_later_one(
    flipped: str, tmp_path: Path
) -> None:
    first = trained(tmp_path, FLIPPED, "first", "nothing")
    second = trained(tmp_path, FLIPPED, "second", flipped)
    outcome = run([*MOTHTRAP, "diff", first, second, "--format", "json"], cwd=tmp_path)
    divergence = json.loads(outcome.stdout)["departure"]
    earliest = divergence["step"] if divergence["since"] is None else divergence["since"]
    assert earliest <= 85 <= divergence["step"], divergence


def test_batches_of_light_steps_hold_no_files_and_not_the_memory_that_they_are_part_of(
    tmp_path: Path,
) -> None:
    script = tmp_path / "train.py"
    script.write_text(LOADED, encoding="utf-8")
    outcome = run(observed(["--", *PYTHON, script], runs_dir=tmp_path, name="seen"), cwd=tmp_path)
    (files, before), (files_later, later) = (
        map(int, line.split()) for line in outcome.stdout.splitlines()
    )
    assert files_later <= files
    assert later - before < 200 * 2**20  # 135 steps of 4 MB each are 0.5 GB
    [kept, *_] = mothtrap.open_run(tmp_path / "seen").observations(FullSteps)
    assert kept.every > 1
