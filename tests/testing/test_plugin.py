"""The pytest plugin, found by its entry point as in an environment with mothtrap."""

from __future__ import annotations

import os
import subprocess
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.harness.running import ITSELF, PYTHON, ready

ROOT = Path(__file__).parents[2]
USES = """
import pytest
import torch
from torch import nn

class Detached(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x):
        return self.last(self.first(x).detach())

torch.manual_seed(0)
BATCHES = [(torch.randn(16, 6), torch.randint(3, (16,)))]
LOSS = nn.CrossEntropyLoss()

def test_passes(mothtrap_asserts):
    mothtrap_asserts.assert_rows_independent(nn.Linear(6, 3), BATCHES, LOSS)

def test_detached(mothtrap_asserts):
    mothtrap_asserts.assert_gradients_reach_all(Detached(), BATCHES, LOSS)

@pytest.mark.mothtrap(budget=1e-6)
def test_no_time(mothtrap_asserts):
    mothtrap_asserts.assert_initial_loss(nn.Linear(6, 3), BATCHES, LOSS)

@pytest.mark.mothtrap(seconds=3)
def test_wrong_marker(mothtrap_asserts):
    pass

def test_no_such_assertion(mothtrap_asserts):
    assert not hasattr(mothtrap_asserts, "assert_nothing")
"""
PLAIN = """
import sys

def test_nothing_was_loaded():
    assert "mothtrap.testing.plugin" in sys.modules
    loaded = {"numpy", "torch", "pyarrow", "mothtrap.core", "mothtrap.testing.asserts"}
    assert not loaded & sys.modules.keys()
"""


def _pytest(
    folder: Path, source: str, python: Sequence[str] = ITSELF
) -> subprocess.CompletedProcess[str]:
    """Run pytest on a file of another project, in an environment with our entry point."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    [(name, module)] = project["entry-points"]["pytest11"].items()
    info = folder / "site" / "mothtrap-9.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mothtrap\nVersion: 9\n")
    (info / "entry_points.txt").write_text(f"[pytest11]\n{name} = {module}\n")
    (folder / "test_theirs.py").write_text(source)
    paths = os.pathsep.join([str(folder / "site"), str(ROOT / "src")])
    return subprocess.run(
        [*python, "-m", "pytest", "-q", "--strict-markers", "-p", "no:cacheprovider"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
    )


def test_a_project_that_does_not_use_it_loads_nothing(tmp_path: Path) -> None:
    ran = _pytest(tmp_path, PLAIN)
    assert ran.returncode == 0, ran.stdout


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> str:
    ready()
    return _pytest(tmp_path_factory.mktemp("project"), USES, PYTHON).stdout


def test_assertions_are_a_fixture(used: str) -> None:
    assert "2 passed" in used
    assert "AssertionError: PRE101: layer first got no gradient" in used


def test_a_marker_bounds_their_time(used: str) -> None:
    assert "PRE103 could not decide: the budget of 0 s was used up" in used


def test_a_wrong_marker_is_named(used: str) -> None:
    assert "expected @pytest.mark.mothtrap(budget=SECONDS)" in used
