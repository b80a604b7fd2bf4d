"""Models of the example are trained, saved, and probed with the command that it prints."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.probed_examples import probed

pytest.importorskip("sklearn")


@pytest.mark.full
def test_trees_of_xgboost_are_probed_and_their_leak_is_named(tmp_path: Path) -> None:
    pytest.importorskip("xgboost")
    run, shown = probed("xgboost", tmp_path, "--ignore", "BEH4,BEH302,BEH305")
    assert "BEH102" in shown
    (leak,) = [each for each in run.findings if each.code == "BEH102"]
    assert leak.layers == ("input:paid_back",)
    assert {status.code for status in run.rules if str(status.state) == "rule_failed"} == set()


@pytest.mark.full
def test_a_network_of_pytorch_is_probed_with_pictures(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    run, _ = probed("torch", tmp_path, "--select", "BEH2,BEH7", "--pictures", "grad_cam,pruning")
    assert not [each for each in run.findings if each.severity != "info"]
    assert [item.name for item in run.record.items] == ["grad_cam", "pruning"]
    states = {status.code: str(status.state) for status in run.rules}
    assert states["BEH701"] == states["BEH702"] == states["BEH703"] == "ok"
