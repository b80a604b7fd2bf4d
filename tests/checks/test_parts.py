"""One part of a script alone, dummy losses, and networks that end at a layer."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.checks.test_command import checked
from tests.harness.running import show


def shown(text: str) -> str:
    return " ".join(text.split())


def test_an_error_at_the_end_of_an_epoch_is_found_early(tmp_path: Path) -> None:
    options = ("--part", "callbacks")
    outcome = checked(tmp_path, "parts.py", "--fault", "epoch", options=options)
    assert outcome.returncode == 1, outcome.stderr
    [found] = [
        one
        for one in show(tmp_path / "runs" / "seen", cwd=tmp_path)["findings"]
        if one["code"] == "PRE601"
    ]
    assert "KeyError: 'folder'" in found["message"]
    assert found["location"].endswith("parts.py:53")


def test_the_code_around_the_steps_runs_to_its_end(tmp_path: Path) -> None:
    outcome = checked(tmp_path, "parts.py", options=("--part", "callbacks", "--select", "PRE"))
    assert outcome.returncode == 0, outcome.stderr
    assert "epochs 50" in shown(outcome.stderr)
    assert "files written 50" in shown(outcome.stderr)
    assert not list(tmp_path.glob("*.pt"))


def test_a_row_that_cannot_be_read_is_found_without_training(tmp_path: Path) -> None:
    options = ("--part", "data", "--steps", "30", "--select", "PRE601")
    outcome = checked(tmp_path, "parts.py", "--fault", "row", options=options)
    assert outcome.returncode == 1, outcome.stderr
    assert "row 390 cannot be read" in shown(outcome.stderr)


@pytest.mark.full
def test_data_that_can_be_read_pass(tmp_path: Path) -> None:
    options = ("--part", "data", "--select", "PRE601,PRE104,PRE301")
    outcome = checked(tmp_path, "parts.py", options=options)
    assert "the part runs alone" in outcome.stderr
    assert "PRE104" not in outcome.stderr


def test_a_loss_that_predictions_cannot_lower_is_named(tmp_path: Path) -> None:
    outcome = checked(tmp_path, "parts.py", "--fault", "loss", options=("--part", "loss"))
    assert outcome.returncode == 1, outcome.stderr
    assert "PRE104" in outcome.stderr
    assert "the fault lies in the loss" in shown(outcome.stderr)


@pytest.mark.full
def test_a_loss_that_predictions_lower_passes(tmp_path: Path) -> None:
    options = ("--part", "loss", "--select", "PRE")
    outcome = checked(tmp_path, "parts.py", options=options)
    assert outcome.returncode == 0, outcome.stderr
    assert "the loss falls when one batch is repeated" in outcome.stderr


def test_a_model_is_checked_with_a_dummy_loss(tmp_path: Path) -> None:
    options = ("--part", "model", "--select", "PRE101,PRE104,PRE107")
    outcome = checked(tmp_path, "parts.py", options=options)
    assert outcome.returncode == 0, outcome.stderr
    assert "2 passed" in outcome.stderr


def test_a_network_ends_at_a_layer(tmp_path: Path) -> None:
    options = ("--cut", "body", "--select", "PRE101,PRE501")
    outcome = checked(tmp_path, "parts.py", options=options)
    assert outcome.returncode == 0, outcome.stderr
    assert "the gradient reaches every parameter that is used (parameters 2)" in shown(
        outcome.stderr
    )


@pytest.mark.full
def test_a_layer_that_no_model_has_is_refused_with_the_names(tmp_path: Path) -> None:
    options = ("--cut", "boddy", "--select", "PRE101")
    outcome = checked(tmp_path, "parts.py", options=options)
    assert outcome.returncode == 2
    assert "did you mean 'body'" in shown(outcome.stderr)
