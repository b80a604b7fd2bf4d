"""The record of a script without special calls shows what was run, and with what result."""

from __future__ import annotations

import argparse
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from tests.harness import running

import mothtrap
from mothtrap.cli import main
from mothtrap.session.record import parsed, settings
from mothtrap.session.record.data_files import data_files, describe

PARSES = """
import argparse
import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset

BATCH = 4 * 4
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--api-key", default="hunter2")
args = parser.parse_args()
torch.manual_seed(0)
rows = np.memmap("train.bin", dtype=np.float32, mode="r").reshape(-1, 4)
x = torch.tensor(np.array(rows))
y = (x.sum(1) > 0).long()
loader = DataLoader(TensorDataset(x, y), batch_size=BATCH, shuffle=True)
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
for _ in range(args.epochs):
    for xs, ys in loader:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(xs), ys).backward()
        optimizer.step()
    torch.save({"model": model.state_dict()}, "model.pt")
"""
COMPOSES = """
import hydra
import torch

@hydra.main(version_base=None, config_path=".", config_name="config")
def main(cfg):
    torch.manual_seed(cfg.seed)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=cfg.optim.lr)
    for _ in range(cfg.steps):
        x = torch.randn(16, 4)
        optimizer.zero_grad()
        (model(x) - x.sum(1, keepdim=True)).square().mean().backward()
        optimizer.step()

main()
"""
CONFIG = "seed: 0\nsteps: 8\noptim: {lr: 0.1, name: sgd}\ncopy: ${optim.lr}\nmissing: ???\n"


def train(folder: Path, name: str, text: str, *arguments: str) -> mothtrap.Run:
    (folder / f"{name}.py").write_text(text)
    command = [*running.MOTHTRAP, "run", "--name", name, f"{name}.py", *arguments]
    done = running.run(command, cwd=folder, env=running.environment())
    assert done.returncode == 0, done.stderr
    return mothtrap.open_run(folder / "runs" / name)


def test_the_record_of_a_script_with_argparse_answers_everything(tmp_path: Path) -> None:
    np.arange(400, dtype=np.float32).tofile(tmp_path / "train.bin")
    run = train(tmp_path, "parses", PARSES, "--lr", "0.5")
    record = run.record
    assert record.parameters == {"BATCH": 16, "api_key": "***", "epochs": 2, "lr": 0.5}
    assert record.given == ("lr",)
    assert record.parameters_from == "argparse, constants of the script"
    [loader] = [data for data in record.data if data.what.endswith("TensorDataset")]
    assert "100 samples, batches of 16, shuffled" in loader.about
    assert len(loader.digest) == 16
    [file] = [data for data in record.data if data.what == "train.bin"]
    assert file.about.startswith("1,600 bytes")
    assert f"{file.about}, {file.digest}" == describe(str(tmp_path / "train.bin"))
    assert list(record.sources) == ["parses.py"]
    assert record.packages["torch"]
    assert record.user
    assert record.host
    assert 0 < record.started_s < record.ended_s
    assert run.metrics.keys() == {"loss"}
    assert "hunter2" not in (run.path / "1" / "w0" / "ledger.json").read_text()
    shown = CliRunner().invoke(main, ["show", str(run.path)]).output.partition("\nrecord\n")[2]
    for said in ("lr=0.5", "TensorDataset", "parses.py", "torch ", record.user, "finished, 14"):
        assert said in shown


def test_the_record_of_a_script_with_hydra_answers_everything(tmp_path: Path) -> None:
    pytest.importorskip("hydra")
    (tmp_path / "config.yaml").write_text(CONFIG)
    record = train(tmp_path, "composes", COMPOSES, "optim.lr=0.05", "+tag=x").record
    assert record.parameters == {
        "seed": 0,
        "steps": 8,
        "optim.lr": 0.05,
        "optim.name": "sgd",
        "copy": 0.05,
        "missing": "???",
        "tag": "x",
    }
    assert record.given == ("optim.lr", "tag")
    assert record.parameters_from == "hydra"


def test_parsers_stay_as_they_are_but_for_what_they_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parsed, "_parsed", {})
    monkeypatch.setattr(parsed, "_installed", set())
    monkeypatch.setattr(parsed, "_taken", [])
    original = argparse.ArgumentParser.parse_known_args
    monkeypatch.setattr(argparse.ArgumentParser, "parse_known_args", original)
    parsed.install("argparse")
    parser = argparse.ArgumentParser(exit_on_error=False)
    parser.add_argument("--lr", type=float, default=0.1)
    below = parser.add_subparsers(dest="command").add_parser("fit")
    below.add_argument("--depth", type=int, default=3)
    with pytest.raises(argparse.ArgumentError) as caught:
        parser.parse_args(["--lr", "x"])
    assert all("parsed.py" not in str(entry.path) for entry in caught.traceback)
    args = parser.parse_args(["--lr", "0.5", "fit", "--depth", "4"])
    assert vars(args) == {"lr": 0.5, "command": "fit", "depth": 4}
    found = settings.settle(settings.seen_now())
    assert found.values.items() >= vars(args).items()
    assert "lr" in found.given
    parser.parse_args([])
    assert parsed.take() == {}


def test_without_a_parser_globals_and_constants_of_the_script_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "LR = 1e-3 * 2\nNAME: str = 'x'\nbest = 0.0\nfor best in (1,): pass\n_HIDDEN = 1\n"
    (tmp_path / "script.py").write_text(text)
    module = types.ModuleType("__main__")
    module.__dict__.update(__file__=str(tmp_path / "script.py"), LR=0.5, NAME="x", best=1)
    module.__dict__.update(_HIDDEN=1, cfg={"depth": 3}, params={"w": np.zeros(3)})
    monkeypatch.setitem(sys.modules, "__main__", module)
    monkeypatch.setattr(parsed, "_parsed", {})
    found = settings.settle(settings.seen_now())
    assert found.values == {"LR": 0.5, "NAME": "x", "depth": 3}


def test_data_files_are_those_that_are_held(tmp_path: Path) -> None:
    large = tmp_path / "large.bin"
    large.write_bytes(bytes(6 << 20))
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "own.arrow").write_bytes(bytes(100))
    mapped = np.memmap(large, dtype=np.uint8, mode="r")
    with (tmp_path / "run" / "own.arrow").open("rb"), large.open("rb"):
        found = data_files(tmp_path / "run")
    del mapped
    [said] = [about for path, about in found.items() if path.endswith("large.bin")]
    assert str(said).startswith("6,291,456 bytes")
    assert not any("own.arrow" in path for path in found)
    assert describe("/dev/null") is None
    assert describe(str(tmp_path / "missing")) is None
