"""Folders in which the harness keeps outcomes and runs."""

from pathlib import Path

import pytest
from tests.harness.running import Cache


@pytest.fixture(scope="session")
def session_folder(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """Return a folder that all xdist workers of the session share."""
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "harness"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def cache(session_folder: Path) -> Cache:
    """Return the outcomes of plain runs: the reference, made once per session."""
    folder = session_folder / "outcomes"
    folder.mkdir(exist_ok=True)
    return Cache(folder)
