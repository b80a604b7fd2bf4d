"""Parts of a script that calls `fit`, dummy losses, and networks that end at an inner layer."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.harness.running import PYTHON, Outcome, environment, run

pytest.importorskip("keras")
pytestmark = pytest.mark.full
SCRIPT = Path(__file__).parent / "fits_and_breaks.py"


def checked(folder: Path, *options: str, fault: str = "") -> Outcome:
    words = [*PYTHON, "-m", "mothtrap", "check", "--runs-dir", "runs", *options]
    return run([*words, "--", *PYTHON, str(SCRIPT), fault], cwd=folder, env=environment())


def shown(outcome: Outcome) -> str:
    return " ".join(outcome.stderr.split())


def test_an_error_of_a_callback_is_found_early(tmp_path: Path) -> None:
    pytest.importorskip("tensorflow")
    outcome = checked(tmp_path, "--part", "callbacks", fault="callback")
    assert outcome.returncode == 1, outcome.stderr
    assert "PRE601" in outcome.stderr
    assert "KeyError: 'f1'" in shown(outcome)


def test_callbacks_run_to_the_end_of_fit(tmp_path: Path) -> None:
    pytest.importorskip("tensorflow")
    outcome = checked(tmp_path, "--part", "callbacks", "--select", "PRE")
    assert outcome.returncode == 0, outcome.stderr
    assert "epochs 30" in shown(outcome)
    assert not list(tmp_path.glob("*.csv"))


def test_a_pipeline_that_fails_is_found_without_training(tmp_path: Path) -> None:
    pytest.importorskip("tensorflow")
    options = ("--part", "data", "--steps", "8", "--select", "PRE601")
    outcome = checked(tmp_path, *options, fault="data")
    assert outcome.returncode == 1, outcome.stderr
    assert "PRE601" in outcome.stderr


def test_a_pipeline_of_tensorflow_is_read_alone(tmp_path: Path) -> None:
    pytest.importorskip("tensorflow")
    options = ("--part", "data", "--steps", "4", "--select", "PRE601")
    outcome = checked(tmp_path, *options, fault="tf.data")
    assert outcome.returncode == 0, outcome.stderr
    assert "the part runs alone (steps 4, seconds per batch" in shown(outcome)


def test_a_record_that_a_pipeline_of_tensorflow_cannot_read_is_found(tmp_path: Path) -> None:
    pytest.importorskip("tensorflow")
    options = ("--part", "data", "--steps", "8", "--select", "PRE601")
    outcome = checked(tmp_path, *options, fault="record")
    assert outcome.returncode == 1, outcome.stderr
    assert "data alone, after 6 steps" in shown(outcome)
    assert "record 130 cannot be read" in shown(outcome)
    assert "fits_and_breaks.py:29" in shown(outcome)


def test_a_loss_is_checked_with_free_predictions(tmp_path: Path) -> None:
    pytest.importorskip("tensorflow")
    outcome = checked(tmp_path, "--part", "loss", "--select", "PRE104")
    assert outcome.returncode == 0, outcome.stderr
    assert "the loss falls when one batch is repeated" in outcome.stderr


def test_a_network_ends_at_a_layer_with_a_dummy_loss(tmp_path: Path) -> None:
    outcome = checked(tmp_path, "--cut", "body", "--select", "PRE104")
    assert outcome.returncode == 0, outcome.stderr
    assert "the loss falls when one batch is repeated" in outcome.stderr
    wrong = checked(tmp_path, "--cut", "boddy", "--select", "PRE104")
    assert "did you mean 'body'" in shown(wrong)
