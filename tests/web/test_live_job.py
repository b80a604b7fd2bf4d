"""A real job of two ranks in the page: it follows in two seconds; a killed server loses nothing."""

from __future__ import annotations

import re
import statistics
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.harness.running import MOTHTRAP, TORCHRUN, environment
from tests.web.conftest import Served, Watched, until

pytest.importorskip("torch", reason="torch is not installed")

SCRIPT = """
import os, sys, time
from pathlib import Path

import torch
from torch import nn

torch.set_num_threads(1)
torch.distributed.init_process_group("gloo")
rank = torch.distributed.get_rank()
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
model = nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
stop, made = Path(sys.argv[1]), open(sys.argv[2] + str(rank), "a")
asked, steps = torch.zeros(1), 0
while not asked.item():
    loss = nn.functional.mse_loss(model(torch.randn(16, 4)), torch.randn(16, 1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    steps += 1
    print(steps, time.time(), file=made, flush=True)
    time.sleep(0.04)
    asked.fill_(float(stop.exists()))
    torch.distributed.all_reduce(asked)  # both leave at the same step
torch.distributed.destroy_process_group()
"""
WITHIN_S = 2.0
LOOKS = 40


@pytest.fixture
def served(tmp_path: Path, free_port: int) -> Iterator[Served]:
    """A server that has not started."""
    made = Served(tmp_path / "runs", free_port, tmp_path / "cache")
    yield made
    made.kill()


@pytest.fixture
def job(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Two ranks that train until a file `stop` is there, and write when each step was made."""
    (tmp_path / "train.py").write_text(SCRIPT, encoding="utf-8")
    command = [*MOTHTRAP, "run", "--name", "job", "--runs-dir", str(tmp_path / "runs"), "--"]
    command += [TORCHRUN, "--standalone", "--nproc-per-node", "2", "train.py", "stop", "made"]
    with (tmp_path / "said").open("wb") as said:
        process = subprocess.Popen(
            list(map(str, command)), cwd=tmp_path, env=environment(), stdout=said, stderr=said
        )
    yield process
    (tmp_path / "stop").touch()
    process.wait(60)


def made(folder: Path, rank: int = 0) -> list[float]:
    """When each step was made."""
    try:
        lines = (folder / f"made{rank}").read_text().splitlines()
    except FileNotFoundError:
        return []
    return [float(line.split()[1]) for line in lines if len(line.split()) == 2]


def shown(page: Any) -> int:
    """The step in the head of the page."""
    found = re.search(r"step ([\d,]+)", page.locator("header .bar").inner_text())
    return int(found[1].replace(",", "")) if found else 0


def behind_s(page: Any, folder: Path) -> float:
    """Return the age of the first step that the page does not show."""
    step = shown(page)
    now_s, times = time.time(), made(folder)
    return now_s - times[step] if step < len(times) else 0.0


@pytest.mark.full
def test_two_ranks_are_followed_within_two_seconds_whatever_becomes_of_the_server(
    browser: Any, served: Served, job: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    until(lambda: len(made(tmp_path, 1)) > 5)
    served.start()
    context = browser.new_context(viewport={"width": 1300, "height": 900})
    page = context.new_page()
    watched = Watched(page, served.url.partition("/?")[0])
    page.goto(f"{served.url}#/overview?run=job")
    page.get_by_text(re.compile(r"^step \d")).wait_for()
    late_s = []
    for _ in range(LOOKS):
        late_s.append(behind_s(page, tmp_path))
        page.wait_for_timeout(100)
    watched.assert_quiet()
    assert statistics.median(late_s) <= WITHIN_S, late_s

    served.kill()
    page.get_by_text("The server does not answer").first.wait_for()
    missed = len(made(tmp_path))
    until(lambda: len(made(tmp_path)) > missed + 10)
    served.start()
    until(lambda: shown(page) > missed + 10)
    page.get_by_text("The server does not answer").wait_for(state="detached")

    (tmp_path / "stop").touch()
    assert job.wait(60) == 0, (tmp_path / "said").read_text()
    page.get_by_text("finished").first.wait_for()
    steps = len(made(tmp_path))
    until(lambda: shown(page) == steps)
    page.get_by_role("img", name=re.compile(f"Loss, steps 0 to {steps - 1}\\b")).wait_for()
    assert watched.errors == watched.elsewhere == []
    context.close()
