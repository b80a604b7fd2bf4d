"""`mothtrap export`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.cli.stored_run import store_run
from tests.exports.stored import store
from tests.plugins import install

from mothtrap.cli import main


@pytest.fixture
def run_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    store(tmp_path / "runs" / "digits")
    return tmp_path / "runs" / "digits"


def export(*args: str) -> Result:
    return CliRunner().invoke(main, ["export", *args])


@pytest.mark.parametrize("form", ["tensorboard", "parquet", "safetensors", "chrome-trace"])
def test_the_latest_run_is_written_in_every_format(
    run_path: Path, tmp_path: Path, form: str
) -> None:
    done = export("--to", form, "-o", "out")
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("out: ")
    assert (tmp_path / "out").exists()


def test_steps_and_tensors_are_chosen(run_path: Path, tmp_path: Path) -> None:
    options = ("--to", "safetensors", "-o", "out", "--tensors", "weight:*", "--steps", "3:")
    done = export("digits", *options)
    assert done.stdout == "out: 3 tensors, 3 files\n"
    done = export("digits", "--to", "chrome-trace", "-o", "trace.json", "--steps", ":2")
    assert done.stdout == "trace.json: 4 steps, 0 findings\n"
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--to", "tensorbord", "-o", "out"), "did you mean 'tensorboard'?"),
        (
            ("--to", "csv", "-o", "out"),
            "there is no format 'csv'; the formats are: chrome-trace, p",
        ),
        (("--to", "parquet", "-o", "out", "--tensors", "nosuch*"), "matches 'nosuch*'"),
        (("--to", "chrome_trce", "-o", "out"), "did you mean 'chrome-trace'?"),
        (("--to", "parquet", "-o", "out", "--steps", "5"), "expected A:B, e.g. 100:200"),
        (("--to", "parquet", "-o", "runs"), "cannot export to runs: it exists"),
        (("--to", "chrome-trace", "-o", "out", "--steps", "99:"), "no steps or findings"),
        (("digit", "--to", "parquet", "-o", "out"), "did you mean 'digits'"),
    ],
)
def test_what_cannot_be_is_said(
    run_path: Path, tmp_path: Path, args: tuple[str, ...], message: str
) -> None:
    done = export(*args)
    assert done.exit_code == 2
    assert message in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]


def test_a_format_of_another_distribution_can_be_used(
    run_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "plugins").mkdir()
    source = (
        "from mothtrap.exports import Written\n"
        "def write(run, target, choice):\n"
        "    target.write_text(run.id)\n"
        "    return Written(counts={'names': 1})\n"
    )
    install(tmp_path / "plugins", monkeypatch, {"mothtrap.exports": {"just_name": source}})
    done = export("--to", "just-name", "-o", "out.txt")
    assert done.stdout == "out.txt: 1 names\n"
    assert (tmp_path / "out.txt").read_text() == "digits"


def test_a_run_without_values_says_how_to_keep_them(tmp_path: Path) -> None:
    store_run(tmp_path / "bare")
    done = export(str(tmp_path / "bare"), "--to", "safetensors", "-o", str(tmp_path / "out"))
    assert done.exit_code == 2
    assert "no values were captured of any tensor" in done.stderr
    assert "a collection that has raw = true" in done.stderr


def test_a_choice_that_matches_nothing_is_not_taken_for_missing_values(run_path: Path) -> None:
    done = export("--to", "safetensors", "-o", "out", "--tensors", "nothing.*")
    assert done.exit_code == 2
    assert "were captured" not in done.stderr


@pytest.mark.parametrize("steps", ["5:3", "5:5"])
def test_a_range_without_steps_is_refused(run_path: Path, steps: str) -> None:
    done = export("--to", "parquet", "-o", "out", "--steps", steps)
    assert done.exit_code == 2
    assert f"--steps {steps} is empty: B is not included" in done.stderr
    assert "step 5 alone, write 5:6" in done.stderr
