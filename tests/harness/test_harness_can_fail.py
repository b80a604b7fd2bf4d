"""The counterpart of the harness: programs that observation does change are caught."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.harness.programs import FOLDER, PROGRAMS
from tests.harness.running import Outcome, environment, run
from tests.harness.test_training_is_not_changed import differences

PERTURBED = """
import os, sys
sys.path.insert(0, {folder!r})
import torch
from dataset import blobs, loader
from digesting import begin

perturbation = os.environ.get("PERTURBATION")
digest = begin()
model = torch.nn.Linear(8, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
if perturbation == "rng":
    torch.rand(1)
for x, y in list(loader(*blobs(rows=64)))[: 3 if perturbation == "batches" else 4]:
    digest.batch(x, y)
    loss = torch.nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    digest.loss(loss.double() if perturbation == "losses" else loss)
if perturbation == "weights":
    with torch.no_grad():
        model.weight[0, 0] = torch.nextafter(model.weight[0, 0], torch.tensor(1e9))
digest.report(model)
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("perturbed") / "perturbed.py"
    path.write_text(PERTURBED.format(folder=str(FOLDER)), encoding="utf-8")
    return path


def outcome(script: Path, perturbation: str) -> Outcome:
    python = PROGRAMS["plain_loop"].plain(0)[0]
    return run([python, script], cwd=script.parent, env=environment(PERTURBATION=perturbation))


@pytest.fixture(scope="module")
def reference(script: Path) -> Outcome:
    plain = outcome(script, "")
    assert plain.returncode == 0, plain.stderr
    return plain


def test_the_same_program_twice_does_not_differ(script: Path, reference: Outcome) -> None:
    assert differences(reference, outcome(script, "")) == []


@pytest.mark.parametrize("part", ["weights", "losses", "rng", "batches"])
def test_one_changed_part_is_named(script: Path, reference: Outcome, part: str) -> None:
    found = differences(reference, outcome(script, part))
    assert any(line.startswith(f"digest of {part}:") for line in found)


def test_other_output_and_exit_code_are_named() -> None:
    plain, other = Outcome(0, "epoch 0\n", ""), Outcome(7, "epoch 0 \n", "")
    found = differences(plain, other)
    assert [line.split()[0].rstrip(":") for line in found] == ["stdout", "exit"]


def test_a_warning_ends_a_program_that_takes_warnings_as_errors(tmp_path: Path) -> None:
    path = tmp_path / "warns.py"
    path.write_text("import warnings\nwarnings.warn('odd')\nprint('went on')", encoding="utf-8")
    python = PROGRAMS["plain_loop"].plain(0)[0]
    assert run([python, path], cwd=tmp_path).stdout == "went on\n"
    strict = run([python, "-W", "error", path], cwd=tmp_path)
    assert (strict.returncode, strict.stdout) == (1, "")
