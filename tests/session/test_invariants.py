"""Invariants learned from healthy trainings are checked in others, live and afterwards."""

from __future__ import annotations

import json
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.harness.running import PYTHON, Outcome, observed, run, show

from mothtrap.cli import main

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


@dataclass(frozen=True)
class Runs:
    """A folder of runs."""

    folder: Path

    def watch(self, name: str, seed: int, fault: str, *options: str) -> Outcome:
        target = ["--", *PYTHON, self.folder / "train.py", str(seed), fault]
        words = observed([*options, *target], runs_dir=self.folder, name=name)
        return run(words, cwd=self.folder)

    def mothtrap(self, *words: str) -> str:
        with chdir(self.folder):
            done = CliRunner().invoke(main, [*words, "--runs-dir", str(self.folder)])
        assert done.exit_code == 0, done.output
        return done.stdout

    def show(self, name: str) -> dict:
        return show(self.folder / name, cwd=self.folder)

    def state(self, name: str) -> str:
        return {rule["code"]: rule["state"] for rule in self.show(name)["rules"]}["RUN904"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Return two healthy runs, the invariants learned from them, and one run checked by them."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "train.py").write_text(SCRIPT)
    made = Runs(folder)
    for seed in (0, 1):
        assert made.watch(f"good-{seed}", seed, "none").returncode == 0
    made.mothtrap("learn", "good-0", "good-1", "-o", FILE)
    assert made.watch("good-2", 2, "none", "--invariants", FILE).returncode == 0
    return made


def test_another_healthy_run_breaks_nothing(runs: Runs) -> None:
    assert (runs.state("good-2"), runs.state("good-0")) == ("ok", "not_applicable")


@pytest.mark.parametrize(
    ("fault", "layer", "message"),
    [
        ("frozen", "0.weight", "has a value at each step, but not in this run, first in 0.weight"),
        ("schedule", "", "the learning rate of SGD changes within 4 steps; in this run it is 0.1"),
        pytest.param(
            *("rate", "", "the learning rate of SGD is at most 0.3; in this run it is 2"),
            marks=pytest.mark.full,
        ),
        pytest.param(
            *("double", "0.weight"),
            "the type of every weight is float32; in this run it is float64, first in 0.weight",
            marks=pytest.mark.full,
        ),
    ],
)
def test_what_is_otherwise_than_in_healthy_runs_is_found(
    fault: str, layer: str, message: str, runs: Runs
) -> None:
    assert runs.watch(fault, 2, fault, "--invariants", FILE).returncode == 0
    [finding] = [f for f in runs.show(fault)["findings"] if f["code"] == "RUN904"]
    assert (finding["severity"], finding["step"]) == ("warning", 0)
    assert finding["layers"][:1] == ([layer] if layer else [])
    assert message in finding["message"]
    options = ("--invariants", FILE, "--select", "RUN904", "--format", "json")
    [again] = json.loads(runs.mothtrap("analyze", fault, *options))["findings"]
    told = ("step", "layers", "message", "evidence", "fingerprint")
    assert [again[key] for key in told] == [finding[key] for key in told]


def test_what_comes_with_mothtrap_is_named_without_a_file(runs: Runs) -> None:
    options = ("--invariants", "pytorch", "--select", "RUN904", "--format", "json")
    [rule] = json.loads(runs.mothtrap("analyze", "good-2", *options))["rules"]
    assert rule["state"] == "ok"


def test_a_file_that_is_not_there_stops_the_job_before_it_starts(runs: Runs) -> None:
    done = runs.watch("never", 0, "none", "--invariants", "gone.toml")
    assert (done.returncode, done.stdout) == (2, "")
    assert "gone.toml" in done.stderr
    assert "mothtrap learn" in done.stderr
    assert not (runs.folder / "never").exists()
