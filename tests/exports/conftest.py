from __future__ import annotations

import pytest
from tests.exports.stored import store

from mothtrap.reader.run import Run


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The run of `tests.exports.stored`."""
    return store(tmp_path_factory.mktemp("runs") / "digits")
