"""The programs here are run as scripts, never collected."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.harness.preloaded import Preloaded
from tests.harness.running import environment

collect_ignore = [
    path.name for path in Path(__file__).parent.glob("*.py") if not path.name.startswith("test_")
]


@pytest.fixture(scope="module")
def preloaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Preloaded]:
    """Runs the programs without importing torch for each."""
    started = Preloaded(tmp_path_factory.mktemp("preloaded"), environment())
    yield started
    started.close()
