"""Run each test of this folder with the compiled part and without it."""

from __future__ import annotations

import pytest

from mothtrap.statistics import built


@pytest.fixture(autouse=True, params=["compiled", "torch"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the name of the way in which plain tensors are reduced."""
    chosen = str(request.param)
    if chosen == "torch":
        monkeypatch.setattr(built, "arrays", None)
    elif built.arrays is None:
        pytest.skip("the package was built without a C compiler")
    return chosen
