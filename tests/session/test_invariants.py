"""What was learned from healthy trainings is watched in others, live and afterwards."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.harness.running import MOTHTRAP, observed, run, show

SCRIPT = """
import sys, torch
seed, fault = int(sys.argv[1]), sys.argv[2]
torch.manual_seed(seed)
model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
if fault == "double":
    model = model.double()
if fault == "frozen":
    model[0].requires_grad_(False)
optimizer = torch.optim.SGD(model.parameters(), lr=2.0 if fault == "rate" else 0.1)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 200)
for step in range(120):
    x = torch.randn(16, 6, dtype=model[0].weight.dtype)
    loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if fault != "schedule":
        schedule.step()
"""
FILE = "invariants.toml"


def watch(folder: Path, name: str, seed: int, fault: str, *options: str) -> None:
    words = observed([folder / "train.py", str(seed), fault], runs_dir=folder, name=name)
    words[4:4] = options
    done = run(words, cwd=folder)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two healthy runs, what was learned from them, and one more that was watched with it."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "train.py").write_text(SCRIPT)
    for seed in (0, 1):
        watch(folder, f"good-{seed}", seed, "none")
    words = ["learn", "good-0", "good-1", "-o", FILE, "--runs-dir", folder]
    done = run([*MOTHTRAP, *map(str, words)], cwd=folder)
    assert done.returncode == 0, done.stderr
    watch(folder, "good-2", 2, "none", "--invariants", FILE)
    return folder


def findings(folder: Path, name: str) -> list[dict]:
    return [f for f in show(folder / name, cwd=folder)["findings"] if f["code"] == "RUN904"]


def test_another_healthy_run_breaks_nothing(folder: Path) -> None:
    states = {rule["code"]: rule["state"] for rule in show(folder / "good-2", cwd=folder)["rules"]}
    assert states["RUN904"] == "ok"
    states = {rule["code"]: rule["state"] for rule in show(folder / "good-0", cwd=folder)["rules"]}
    assert states["RUN904"] == "not_applicable"


@pytest.mark.parametrize(
    ("fault", "layer", "message"),
    [
        ("frozen", "0.weight", "has a value at each step; not so here, first in 0.weight"),
        ("schedule", "", "the learning rate of SGD changes within 4 steps; here it is 0.1"),
        ("rate", "", "the learning rate of SGD is at most 0.3; here it is 2"),
        ("double", "0.weight", "the type of every weight is float32"),
    ],
)
def test_what_is_otherwise_than_in_healthy_runs_is_found(
    fault: str, layer: str, message: str, folder: Path
) -> None:
    watch(folder, fault, 2, fault, "--invariants", FILE)
    [finding] = findings(folder, fault)
    assert (finding["severity"], finding["step"]) == ("warning", 0)
    assert finding["layers"][:1] == ([layer] if layer else [])
    assert message in finding["message"]
    words = ["analyze", fault, "--runs-dir", folder, "--invariants", FILE, "--select", "RUN904"]
    done = run([*MOTHTRAP, *map(str, words), "--format", "json"], cwd=folder)
    [again] = json.loads(done.stdout)["findings"]
    assert (again["step"], again["layers"], again["message"]) == (
        finding["step"],
        finding["layers"],
        finding["message"],
    )


def test_what_comes_with_mothtrap_is_named_without_a_file(folder: Path) -> None:
    words = ["analyze", "good-2", "--runs-dir", folder, "--select", "RUN904"]
    done = run(
        [*MOTHTRAP, *map(str, words), "--invariants", "pytorch", "--format", "json"], cwd=folder
    )
    states = [rule["state"] for rule in json.loads(done.stdout)["rules"]]
    assert states == ["ok"]


def test_a_file_that_is_not_there_stops_the_job_before_it_starts(folder: Path) -> None:
    words = observed([folder / "train.py", "0", "none"], runs_dir=folder, name="never")
    words[4:4] = ["--invariants", "gone.toml"]
    done = run(words, cwd=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert "gone.toml" in done.stderr
    assert "mothtrap learn" in done.stderr
    assert not (folder / "never").exists()
