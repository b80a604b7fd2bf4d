"""`mothtrap analyze` of many runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.cli.stored_run import store_run
from tests.cli.test_analyze import RULES

from mothtrap.cli import main
from mothtrap.core.ledger import Ledger
from mothtrap.store import layout


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Four stored runs with their learning rates; the loss of two falls below the limit."""
    monkeypatch.chdir(tmp_path)
    for number, loss in enumerate((1.0, 2.0, 100.0, 200.0)):
        run = tmp_path / "runs" / f"sweep-{number}"
        store_run(run, first_loss=loss)
        options = {"lr": 0.1 if loss < 50 else 0.2, "seed": number}
        ledger = Ledger(
            created_s=1.0,
            rank=0,
            framework="torch",
            arguments=(),
            cwd="",
            facts={"parameters": options},
        )
        layout.write_ledger(run / "1" / "w0", ledger)
    (tmp_path / "mine.py").write_text(RULES)
    return tmp_path


def analyze(*words: str) -> Result:
    return CliRunner().invoke(main, ["analyze", *words, "--rules", "mine.py", "--select", "ZZZ901"])


def test_a_line_per_run_and_the_worst_decides_the_exit_code() -> None:
    done = analyze("runs/sweep-*")
    assert done.exit_code == 1, done.output
    lines = sorted(done.stdout.splitlines())
    assert [line.partition(":")[0] for line in lines] == [f"sweep-{n}" for n in range(4)]
    assert lines[0].startswith("sweep-0: Low loss since step 2")
    assert lines[3] == "sweep-3: Nothing wrong was found in 12 steps."
    assert analyze("runs/sweep-2", "runs/sweep-3").exit_code == 0
    assert analyze("runs/sweep-*", "--fail-on", "never").exit_code == 0


def test_options_that_go_with_findings() -> None:
    done = analyze("runs/sweep-*", "--by", "lr")
    table = done.stdout.partition("\n\n")[2].splitlines()
    assert table[0].split() == ["option", "value", "finding", "with", "it", "others", "p"]
    assert table[1].split() == ["lr", "0.1", "ZZZ901", "low_loss", "2", "of", "2", "0", "of", "2",
                                "0.17"]  # fmt: skip
    assert len(table) == 2
    nothing = analyze("runs/sweep-0", "runs/sweep-1", "--by", "lr")
    assert "no values of lr to compare" in nothing.stdout


def test_json_has_everything() -> None:
    done = analyze("runs/sweep-*", "--by", "all", "--format", "json")
    *verdicts, table = map(json.loads, done.stdout.splitlines())
    assert {v["name"]: [f["code"] for f in v["findings"]] for v in verdicts} == {
        "sweep-0": ["ZZZ901"],
        "sweep-1": ["ZZZ901"],
        "sweep-2": [],
        "sweep-3": [],
    }
    assert {row["option"] for row in table["by"]} == {"lr", "seed"}


def test_thresholds_and_stored_results() -> None:
    first = analyze("runs/sweep-*", "--set", "ZZZ901.limit=0.01", "--skip-done")
    assert first.exit_code == 0, first.output
    assert analyze("runs/sweep-*", "--set", "ZZZ901.limit=0.01", "--skip-done").exit_code == 0
    assert analyze("runs/sweep-*", "--skip-done").exit_code == 1, "other thresholds, other results"


def test_a_run_that_cannot_be_read_is_named_and_ends_with_2(folder: Path) -> None:
    (folder / "runs" / "sweep-1" / "1" / "w0" / "ledger.json").write_text("no")
    (folder / "runs" / "sweep-2" / "remote.json").write_text("no")
    done = analyze("runs/sweep-*")
    assert done.exit_code == 2
    assert "sweep-2: cannot be evaluated: " in done.stdout
    assert len(done.stdout.splitlines()) == 4


def test_a_reference_is_for_one_run() -> None:
    done = analyze("runs/sweep-*", "--reference", "x")
    assert done.exit_code == 2
    assert "--reference works with one run only" in done.output
