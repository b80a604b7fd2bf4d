"""Dependencies of a worker's numbers are stored with its captures."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.harness import running

from mothtrap.cli import main
from mothtrap.core.errors import DamagedDataError
from mothtrap.core.ledger import Start, differences
from mothtrap.reader.run import open_run
from mothtrap.session.ledger import LedgerKeeper
from mothtrap.store import layout

SCRIPT = """
import sys
import torch
if "--seed" in sys.argv:
    torch.manual_seed(int(sys.argv[-1]))
torch.set_num_threads(1)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
"""


def run(folder: Path, name: str, *arguments: str) -> Path:
    (folder / "train.py").write_text(SCRIPT)
    environ = running.environment(CUBLAS_WORKSPACE_CONFIG=":4096:8", MY_API_TOKEN="hidden")
    command = [*running.MOTHTRAP, "run", "--name", name, "train.py", *arguments]
    assert running.run(command, cwd=folder, env=environ).returncode == 0
    return folder / "runs" / name


def test_a_run_has_a_ledger(tmp_path: Path) -> None:
    path = run(tmp_path, "seeded", "--seed", "7")
    ledger = open_run(path).ledger()
    assert ledger is not None
    facts = ledger.facts
    assert (facts["random"]["start.torch"], facts["random"]["seed.torch"]) == (Start.SEEDED, 7)
    assert facts["random"]["start.numpy"] == Start.UNUSED
    assert facts["determinism"]["threads"] == 1
    assert facts["versions"]["torch"]
    assert facts["environment"]["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
    assert [*facts["sources"]] == ["train.py"]
    assert ledger.arguments == ("train.py", "--seed", "7")
    assert "hidden" not in (path / "1" / "w0" / "ledger.json").read_text()
    assert open_run(path).packages()["torch"] == version("torch")
    source = open_run(path).source
    assert source is not None
    assert "not a git repository" in source.error

    other = open_run(run(tmp_path, "unseeded")).ledger()
    assert other is not None
    assert other.facts["random"]["start.torch"] == Start.UNSEEDED
    changed = {(section, name) for section, name, _, _ in differences(facts, other.facts)}
    assert ("random", "seed.torch") in changed
    assert {section for section, _ in changed} == {"random"}

    found = CliRunner().invoke(main, ["doctor", str(path)])
    assert found.exit_code == 0, found.output
    found = CliRunner().invoke(main, ["doctor", str(tmp_path / "runs" / "unseeded")])
    assert found.exit_code == 1
    assert "fix: torch.manual_seed(0) before the model is created" in found.output
    (tmp_path / "train.py").write_text(SCRIPT + "\n")
    found = CliRunner().invoke(
        main, ["doctor", str(path), "--format", "json"], env={"PWD": str(tmp_path)}
    )
    said = json.loads(found.output)
    assert "1 file changed since the run: train.py" in {each["what"] for each in said["hindrances"]}

    damaged = path / "1" / "w0" / "ledger.json"
    damaged.write_text(damaged.read_text().replace('"threads":1', '"threads":2'))
    with pytest.raises(DamagedDataError, match="do not match its checksum"):
        open_run(path).ledger()
    found = CliRunner().invoke(main, ["doctor", str(path)])
    assert found.exit_code == 0
    assert "do not match its checksum" in found.output
    assert "seeds, switches and versions: the run has no ledger" in found.output


def test_a_ledger_that_cannot_be_written_is_told_once(tmp_path: Path) -> None:
    failures: list[BaseException] = []
    LedgerKeeper(tmp_path / "gone", 0, "torch", [], failures.append).close()
    assert [type(err) for err in failures] == [FileNotFoundError]


def test_what_an_adapter_cannot_find_out_is_missing(tmp_path: Path) -> None:
    class Failing:
        facts = {"random": {"digest.python": "12"}}
        missing = {"cudnn.conv.precision": "AttributeError: gone"}

        def later(self) -> dict[str, dict[str, str]]:
            raise RuntimeError("no states")

    failures: list[BaseException] = []
    LedgerKeeper(tmp_path, 3, "torch", [Failing()], failures.append).close()  # type: ignore[list-item]
    ledger = layout.read_ledger(tmp_path)
    assert ledger is not None
    assert not failures
    assert ledger.rank == 3
    assert ledger.facts["random"] == {"digest.python": "12"}
    assert ledger.missing["random"] == "RuntimeError: no states"
