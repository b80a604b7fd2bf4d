"""Each test of this folder runs with the compiled part and without it."""

from __future__ import annotations

import pytest

from mothtrap.statistics.torch import compiled


@pytest.fixture(autouse=True, params=["compiled", "torch"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How plain tensors are reduced."""
    chosen = str(request.param)
    if chosen == "torch":
        monkeypatch.setattr(compiled, "_arrays", None)
        monkeypatch.setattr("mothtrap.statistics.numpy._arrays", None)
    elif not compiled.is_built():
        pytest.skip("the package was built without a C compiler")
    return chosen
