"""A step that went bad is replayed with the repaired script, whose lines have moved."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.harness.running import MOTHTRAP, PYTHON, observed, run, show
from tests.replay.test_bad_steps import FOLDER
from tests.replay.test_loops import replayed, told

FAULT = "    p = torch.sigmoid(model(x))\n"
IN_PLACE = (
    "    # neither logarithm may see a 0\n    p = torch.sigmoid(model(x)).clamp(1e-6, 1 - 1e-6)\n"
)
IN_TWO_LINES = "    raw = torch.sigmoid(model(x))\n    p = raw.clamp(1e-6, 1 - 1e-6)\n"
IN_A_FUNCTION = """\
    def chances(rows):
        return torch.sigmoid(model(rows)).clamp(1e-6, 1 - 1e-6)

    p = chances(x)
"""


def trained(folder: Path) -> Path:
    """Run a copy of a program whose step 157 goes bad; return its run."""
    for name in ("log_of_zero.py", "telling.py"):
        shutil.copy(FOLDER / name, folder)
    words = observed(["--", *PYTHON, "log_of_zero.py"], runs_dir=folder / "runs", name="seen")
    outcome = run(words, cwd=folder)
    assert outcome.returncode == 0, outcome.stderr
    return folder / "runs" / "seen"


def rewrite(script: Path, fault: str, mended: str) -> None:
    text = script.read_text(encoding="utf-8")
    assert text.count(fault) == 1
    text = text.replace(fault, mended).replace("import torch\n", "import torch\n\n\n", 1)
    script.write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    "mended",
    [
        pytest.param(IN_PLACE, marks=pytest.mark.full),
        pytest.param(IN_TWO_LINES, marks=pytest.mark.full),
        IN_A_FUNCTION,
    ],
)
def test_a_repair_that_moves_lines_is_tried_on_the_recorded_step(
    mended: str, tmp_path: Path
) -> None:
    path = trained(tmp_path)
    rewrite(tmp_path / "log_of_zero.py", FAULT, mended)
    outcome = replayed(path)
    head, loss, *notes = outcome.stdout.splitlines()
    assert head == "step 157 of seen, replayed: no fault here, unlike in the run", outcome
    assert loss.startswith("  loss: nan in the run, ")
    assert loss.endswith(" here; it and all gradients are finite")
    assert "  = note: log_of_zero.py was changed after the run began" in notes
    kept = show(path, cwd=tmp_path)["replay"]
    assert kept["edited"] == [head, loss, *notes]
    assert not kept.get("lines")  # of the original script


def test_a_repair_in_a_copy_of_the_folder_is_found_and_said(tmp_path: Path) -> None:
    home, copy = tmp_path / "home", tmp_path / "copy"
    home.mkdir()
    path = trained(home)
    shutil.copytree(home, copy, ignore=shutil.ignore_patterns("runs"))
    rewrite(copy / "log_of_zero.py", FAULT, IN_PLACE)
    again = told(path, "--cwd", str(copy))
    assert (again["match"], again["mended"], again["nonfinite"]) == (False, True, False), again
    assert again["losses_in_run"] == ["NaN"]
    assert "log_of_zero.py was changed after the run began" in again["notes"]
    unchanged = told(path)
    assert (unchanged["match"], unchanged["mended"]) == (True, False), unchanged
    assert unchanged["location"] == "log_of_zero.py:26"


def test_what_was_changed_without_a_repair_goes_bad_in_its_new_place(tmp_path: Path) -> None:
    path = trained(tmp_path)
    rewrite(tmp_path / "log_of_zero.py", FAULT, FAULT)
    again = told(path)
    assert (again["match"], again["mended"], again["location"]) == (
        True,
        False,
        "log_of_zero.py:28",
    ), again


PREPARED = """import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
lengths = torch.arange(1.0, 97.0)
lengths[50] = -1.0
data = TensorDataset(torch.randn(96, 4), lengths)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for rows, length in DataLoader(data, batch_size=8):
    weight = torch.log(length)
    rows = rows * weight[:, None]
    loss = torch.nn.functional.mse_loss(model(rows).squeeze(1), weight)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_a_repair_between_the_batch_and_the_model_is_tried(tmp_path: Path) -> None:
    """Inputs and targets are those of the script, computed from the recorded batch."""
    script = tmp_path / "prepared.py"
    script.write_text(PREPARED, encoding="utf-8")
    words = observed(["--", *PYTHON, "prepared.py"], runs_dir=tmp_path / "runs", name="seen")
    assert run(words, cwd=tmp_path).returncode == 0
    path = tmp_path / "runs" / "seen"
    assert told(path)["match"]
    rewrite(script, "torch.log(length)", "torch.log(length.clamp_min(1.0))")
    head, loss, *notes = replayed(path).stdout.splitlines()
    assert head == "step 6 of seen, replayed: no fault here, unlike in the run"
    assert loss.endswith(" here; it and all gradients are finite")
    assert "  = note: prepared.py was changed after the run began" in notes


def test_where_the_step_is_not_found_the_change_is_said(tmp_path: Path) -> None:
    path = trained(tmp_path)
    rewrite(
        tmp_path / "log_of_zero.py", "for step, (x, y) in", "raise SystemExit\nfor step, (x, y) in"
    )
    outcome = run([*MOTHTRAP, "replay", path], cwd=path)
    assert outcome.returncode == 2
    assert "never reached step 157" in outcome.stderr
    assert "note: log_of_zero.py was changed after the run began" in outcome.stderr
