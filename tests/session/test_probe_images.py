"""Images are probed with one command: an example's PyTorch module, from safetensors files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from safetensors.numpy import save_file as save_arrays
from safetensors.torch import save_file
from tests.behavior.networks import digits, trained

from mothtrap import open_run
from mothtrap.cli import main
from mothtrap.core.errors import ConfigError
from mothtrap.session.asked_models import function
from mothtrap.session.probe_data import column_of, read_new, read_table

EXAMPLE = Path(__file__).parents[2] / "examples" / "class_activation"


def test_the_reader_of_the_example_is_probed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(EXAMPLE)
    monkeypatch.delitem(__import__("sys").modules, "train", raising=False)
    X, y = digits()
    torch.manual_seed(0)
    net = trained(function("train:Reader")(), X[:1000], y[:1000], 4)
    save_file(net.state_dict(), tmp_path / "reader.safetensors")
    save_arrays({"X": X[1000:], "y": y[1000:]}, tmp_path / "held.safetensors")
    monkeypatch.chdir(tmp_path)
    words = ["probe", "--build", "train:Reader", "--weights", "reader.safetensors"]
    words += ["held.safetensors", "--target", "y", "--select", "BEH4,BEH7,BEH301"]
    done = CliRunner().invoke(main, [*words, "--pictures", "grad_cam", "--name", "asked"])
    assert done.exit_code == 0, done.output
    run = open_run("runs/asked")
    assert run.probed is not None
    assert run.probed.rows == 797
    assert [file.role for file in run.probed.files] == ["model", "data"]
    assert [item.name for item in run.record.items] == ["grad_cam"]
    states = {status.code: str(status.state) for status in run.rules}
    assert states["BEH402"] == states["BEH701"] == states["BEH704"] == "ok"


def test_arrays_are_read_by_name(tmp_path: Path) -> None:
    X, y = digits()
    path = str(tmp_path / "a.safetensors")
    arrays: dict[str, Any] = {"X": X[:20], "y": y[:20], "when": y[:20] * 1.0}
    save_arrays(arrays, path)
    rows, targets = read_table(path, "y", ("when",))
    assert rows.shape == (20, 1, 8, 8)
    assert targets.tolist() == y[:20].tolist()
    assert column_of(path, "when").tolist() == targets.tolist()
    both, _ = read_table(path, "y")
    assert set(both) == {"X", "when"}
    new = read_new(path, "y", ("when",))
    assert isinstance(new, tuple)
    with pytest.raises(ConfigError, match="no array 'Y'"):
        read_table(path, "Y")
    with pytest.raises(ConfigError, match="no file"):
        read_table(str(tmp_path / "gone.safetensors"), "y")
    (tmp_path / "bad.safetensors").write_bytes(b"no arrays")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_table(str(tmp_path / "bad.safetensors"), "y")
