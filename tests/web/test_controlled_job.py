"""A real job is kept, stopped and replayed from the page."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.harness.running import MOTHTRAP, environment
from tests.web.conftest import Served, Watched, until

from mothtrap.core.runs import STOPPED

pytest.importorskip("torch", reason="torch is not installed")

SCRIPT = """
import time
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for epoch in range(100_000):
    for x, y in DataLoader(data, batch_size=16, shuffle=True):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
        time.sleep(0.02)
"""


@pytest.fixture
def served(tmp_path: Path, free_port: int) -> Iterator[Served]:
    """A server that may start replays."""
    made = Served(tmp_path / "runs", free_port, tmp_path / "cache", "--allow-replay")
    yield made
    made.kill()


@pytest.fixture
def job(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A job that continues until it is stopped."""
    (tmp_path / "train.py").write_text(SCRIPT, encoding="utf-8")
    command = [*MOTHTRAP, "run", "--name", "job", "--runs-dir", "runs", "train.py"]
    with (tmp_path / "said").open("wb") as said:
        process = subprocess.Popen(
            command,
            cwd=tmp_path,
            env={**environment(), "MOTHTRAP_CACHE": str(tmp_path / "cache")},
            stdout=said,
            stderr=said,
            start_new_session=True,
        )
    yield process
    with suppress(ProcessLookupError):  # where it has ended as it should
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(60)


def test_a_job_is_kept_stopped_and_replayed(
    browser: Any, served: Served, job: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    until(lambda: (tmp_path / "runs" / "job").exists())
    served.start()
    context = browser.new_context(viewport={"width": 1300, "height": 900})
    page = context.new_page()
    watched = Watched(page, served.url.partition("/?")[0], timeout_ms=120_000)
    page.goto(f"{served.url}#/overview?run=job")
    page.get_by_text(re.compile(r"^step \d\d")).wait_for()

    page.get_by_role("button", name="Snapshot").click()
    page.get_by_text(re.compile(r"step \d+ was stored and can be replayed")).first.wait_for()
    kept = re.search(r"step (\d+) was stored", page.locator("body").inner_text())
    assert kept is not None

    page.get_by_role("button", name="Stop", exact=True).click()
    page.get_by_role("button", name="Stop the job now?").click()
    assert job.wait(120) == STOPPED, (tmp_path / "said").read_text()
    page.get_by_text(re.compile(r"stopped before step \d+, as requested")).first.wait_for()

    page.goto(f"{served.url}#/samples?run=job&at={kept[1]}")
    page.get_by_role("button", name="Replay here").click()
    page.get_by_role("button", name="Execute the script of the run?").click()
    page.get_by_text(f"Step {kept[1]}, replayed: bit-identical to the run").wait_for()
    watched.assert_quiet()
    context.close()
