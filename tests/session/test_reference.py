"""A run beside the one that it should repeat."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.harness.running import MOTHTRAP, observed, run, show

SCRIPT = """
import sys, torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(40):
    if step == int(sys.argv[1]):
        model[2].weight.data.mul_(1.2)
    x = torch.randn(16, 6)
    loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Store runs: one, the same again, and one that diverges at step 25."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "train.py").write_text(SCRIPT)
    for name, step in (("first", 99), ("again", 99), ("other", 25)):
        words = observed([folder / "train.py", step], runs_dir=folder, name=name)
        if name != "first":
            words[4:4] = ["--reference", "first"]
        done = run(words, cwd=folder)
        assert done.returncode == 0, done.stderr
    return folder


def test_a_divergence_is_dated(folder: Path) -> None:
    record = show(folder / "other", cwd=folder)
    [finding] = [f for f in record["findings"] if f["code"] == "RUN902"]
    assert (finding["severity"], finding["step"]) == ("warning", 25)


@pytest.mark.parametrize(("name", "state"), [("first", "not_applicable"), ("again", "ok")])
def test_what_is_the_same_is_no_finding(folder: Path, name: str, state: str) -> None:
    rules = show(folder / name, cwd=folder)["rules"]
    assert {rule["code"]: rule["state"] for rule in rules}["RUN902"] == state


def test_analyze_compares_two_runs_that_are_stored(folder: Path) -> None:
    words = ["analyze", "other", "--runs-dir", folder, "--reference", "again", "--select", "RUN902"]
    done = run([*MOTHTRAP, *map(str, words), "--format", "json"], cwd=folder)
    assert [f["step"] for f in json.loads(done.stdout)["findings"]] == [25]


def test_a_reference_that_is_not_there_stops_the_job_before_it_starts(folder: Path) -> None:
    words = observed([folder / "train.py", 99], runs_dir=folder, name="none")
    done = run([*words[:4], "--reference", "gone", *words[4:]], cwd=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert "gone" in done.stderr
    assert not (folder / "none").exists()
