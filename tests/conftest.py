"""Property tests try the same cases in every run; HYPOTHESIS_PROFILE=explore tries new ones."""

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings
from tests.harness.preloaded import Preloaded
from tests.harness.running import environment

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("explore", max_examples=1000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


@pytest.fixture(scope="session")
def preloaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Preloaded]:
    """Runs programs without importing torch for each."""
    started = Preloaded(tmp_path_factory.mktemp("preloaded"), environment())
    yield started
    started.close()
