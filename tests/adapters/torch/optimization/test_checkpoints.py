from __future__ import annotations

import io
from pathlib import Path

import safetensors.torch
import torch
from tests.adapters.torch.watched import Seen, classifier, sgd, train, watched
from torch import nn

from mothtrap.core.facts.record import CheckpointSaved


def saved(seen: Seen) -> list[tuple[int, str]]:
    found = seen.observed(CheckpointSaved)
    return [(o.step, Path(o.path).name) for o in found]  # type: ignore[attr-defined]


def test_files_with_all_weights_are_told_with_the_steps_that_they_have_taken(
    tmp_path: Path,
) -> None:
    model = classifier()
    optimizer = sgd(model)
    own = torch.save, safetensors.torch.save_file
    with watched() as seen:
        train(model, optimizer, steps=2)
        torch.save({"model": model.state_dict(), "epoch": 1}, tmp_path / "a.pt")
        torch.save(obj=model, f=io.BytesIO())
        train(model, optimizer, steps=1)
        safetensors.torch.save_file(model.state_dict(), tmp_path / "b.safetensors")
        torch.save(optimizer.state_dict(), tmp_path / "optimizer.pt")
        torch.save(model[0].state_dict(), tmp_path / "part.pt")
        torch.save({"x": [1, "y"]}, tmp_path / "other.pt")
        train(model, optimizer, steps=1)
    assert saved(seen) == [(2, "a.pt"), (2, ""), (3, "b.safetensors")]
    assert (torch.save, safetensors.torch.save_file) == own


def test_weights_that_no_one_trains_are_no_checkpoint(tmp_path: Path) -> None:
    with watched() as seen:
        torch.save(nn.Linear(500, 500).state_dict(), tmp_path / "a.pt")
        model = classifier()
        train(model, sgd(model), steps=1)
    assert saved(seen) == []


def test_a_file_that_cannot_be_written_fails_as_it_would(tmp_path: Path) -> None:
    model = classifier()
    with watched() as seen:
        train(model, sgd(model), steps=1)
        try:
            torch.save(model.state_dict(), tmp_path / "missing" / "a.pt")
        except RuntimeError as err:
            frame = err.__traceback__.tb_next  # type: ignore[union-attr]
            assert frame is None or "mothtrap" not in frame.tb_frame.f_code.co_filename
    assert saved(seen) == []
