"""A small run that is made once, and copies of it to be damaged."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
from tests.durability.small_run import SmallRun, write

collect_ignore = ["trainings.py"]


@pytest.fixture(scope="session", params=["sealed", "torn"])
def small_run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> SmallRun:
    """Return a run that ended normally, or one whose writers were killed."""
    return write(tmp_path_factory.mktemp("run") / "small", sealed=request.param == "sealed")


@pytest.fixture
def copy(small_run: SmallRun, tmp_path: Path) -> Callable[[], Path]:
    """Return a function that makes a fresh copy of the run."""
    numbers = count()

    def make() -> Path:
        return Path(shutil.copytree(small_run.path, tmp_path / str(next(numbers))))

    return make
