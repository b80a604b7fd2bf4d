"""The script that `mothtrap replay --repro` writes fails without the training script."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.harness.running import FULL, MOTHTRAP, PYTHON, environment, observed, run

FOLDER = Path(__file__).parent / "programs"
CASES = (
    ("sqrt_of_zero_in_backward", "the same bits"),
    ("label_out_of_range", "the same exception (IndexError: Target 4 is out of bounds.)"),
    ("nan_in_a_file", "the same bits"),
    ("exploding_rnn", "the same bits"),
    ("shape_of_last_batch", "the same exception"),
    ("every_key_masked", "the same bits"),
)


@pytest.mark.parametrize(
    ("name", "said"), [pytest.param(*case, id=case[0]) for case in CASES[: None if FULL else 1]]
)
def test_a_reproduction_fails_where_the_training_is_gone(
    name: str, said: str, tmp_path: Path
) -> None:
    training, elsewhere = tmp_path / "training", tmp_path / "elsewhere"
    training.mkdir()
    elsewhere.mkdir()
    for program in (f"{name}.py", "telling.py"):
        shutil.copy(FOLDER / program, training)
    target = ["--", *PYTHON, training / f"{name}.py"]
    run(observed(target, runs_dir=tmp_path, name="seen"), cwd=training)
    written = tmp_path / "repro.py"
    again = ["replay", tmp_path / "seen", "--repro", written, *target]
    outcome = run([*MOTHTRAP, *again], cwd=training)
    assert outcome.returncode == 0, outcome
    assert "repro.py reproduces it without the script" in outcome.stdout

    for path in tmp_path.glob("repro.*"):
        shutil.move(path, elsewhere)
    shutil.rmtree(training)
    shutil.rmtree(tmp_path / "seen")
    text = (elsewhere / "repro.py").read_text(encoding="utf-8")
    assert str(tmp_path) not in text
    assert len(text.splitlines()) <= 60
    failed = run([*PYTHON, "repro.py"], cwd=elsewhere, env=environment(MOTHTRAP_DISABLE="1"))
    assert failed.returncode == 1, failed
    assert f"reproduced: {said}" in failed.stderr


def test_a_step_in_order_gives_a_reason(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    text = (FOLDER / "shape_of_last_batch.py").read_text(encoding="utf-8")
    shutil.copy(FOLDER / "telling.py", tmp_path)
    script.write_text(text, encoding="utf-8")
    run(observed(["--", *PYTHON, script], runs_dir=tmp_path / "runs", name="seen"), cwd=tmp_path)
    script.write_text(text.replace("reshape(16, 12)", "flatten(1)"), encoding="utf-8")
    again = [*MOTHTRAP, "replay", tmp_path / "runs" / "seen", "--anyway", "--repro"]
    outcome = run([*again, tmp_path / "repro.py"], cwd=tmp_path)
    assert outcome.returncode == 2, outcome
    assert "error: no script was written: the step has no fault here" in outcome.stderr


SECRET = "ghp_" + "a1B2c3D4e5" * 4
WITH_SECRETS = f"""
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential()
net.add_module("/home/alice/{SECRET}", nn.Linear(4, 3))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(20):
    x, y = torch.randn(8, 4), torch.randint(3, (8,))
    scores = net(x)
    if step == 12:
        scores = FAILS
    loss = nn.functional.cross_entropy(scores, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.full
@pytest.mark.parametrize(
    ("fails", "is_written"),
    [
        ("torch.log(scores - scores)", True),
        (f"nn.functional.interpolate(scores[None], size=3, mode='{SECRET}')[0]", False),
    ],
)
def test_a_reproduction_names_no_secret_and_no_folder(
    fails: str, is_written: bool, tmp_path: Path
) -> None:
    script, written = tmp_path / "train.py", tmp_path / "repro.py"
    script.write_text(WITH_SECRETS.replace("FAILS", fails), encoding="utf-8")
    run(observed(["--", *PYTHON, script], runs_dir=tmp_path / "runs", name="seen"), cwd=tmp_path)
    again = [*MOTHTRAP, "replay", tmp_path / "runs" / "seen", "--anyway", "--repro", written]
    outcome = run(again, cwd=tmp_path)
    assert written.exists() is is_written, outcome
    if is_written:
        text = written.read_text(encoding="utf-8")
        assert not [one for one in (SECRET, "alice", str(tmp_path)) if one in text]
    else:
        assert "contains a secret or a folder" in outcome.stderr
