"""`mothtrap.TrainerCallback` watches one training in a script that starts itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

transformers = pytest.importorskip("transformers")

from tests.adapters.transformers.training import Numbers, Regression, train, weights  # noqa: E402

import mothtrap  # noqa: E402

OWN: dict[str, Any] = {"data": Numbers()}


@pytest.mark.parametrize("own", [False, True], ids=["of the library", "of the user"])
def test_one_line_makes_a_run(own: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    class Watched(transformers.Trainer):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, callbacks=[mothtrap.TrainerCallback(name="one")], **kwargs)

    def run(**settings: Any) -> Any:
        transformers.set_seed(0)
        return train(**({"model": Regression(), **OWN} if own else {}), **settings)

    plain = weights(run().model)
    one = run(trainer=Watched)
    assert weights(one.model) == plain
    seen = mothtrap.open_run(tmp_path / "runs" / "one")
    assert seen.steps == 16
    (logged,) = seen.scalars("log.loss")
    rows = [row["loss"] for row in one.state.log_history if "loss" in row]
    assert list(logged.values_S) == rows
