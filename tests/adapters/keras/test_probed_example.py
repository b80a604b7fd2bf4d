"""The saved Keras model of the example is probed with the command that the example prints."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.probed_examples import probed

pytest.importorskip("keras")
pytest.importorskip("sklearn")


@pytest.mark.full
def test_a_saved_keras_model_is_probed_with_pictures(tmp_path: Path) -> None:
    run, _ = probed("keras", tmp_path, "--select", "BEH2,BEH7", "--pictures", "grad_cam,pruning")
    assert not [each for each in run.findings if each.severity != "info"]
    assert [item.name for item in run.record.items] == ["grad_cam", "pruning"]
    states = {status.code: str(status.state) for status in run.rules}
    assert states["BEH701"] == states["BEH702"] == states["BEH703"] == "ok"
