"""`mothtrap doctor`."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.plugins import install

from mothtrap.cli import main


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def doctor(*args: str) -> Result:
    return CliRunner().invoke(main, ["doctor", *args])


def test_a_sound_environment_has_no_problem(folder: Path) -> None:
    (folder / "mothtrap.toml").write_text("overhead = 0.1\n")
    done = doctor()
    assert done.exit_code == 0
    assert "problem" not in done.output
    assert f"configuration: {folder / 'mothtrap.toml'}" in done.output
    assert "start-up hook: child processes of this Python are watched" in done.output
    assert " active" in done.output


def test_a_typo_in_the_configuration_is_a_problem(folder: Path) -> None:
    (folder / "mothtrap.toml").write_text("overhaed = 0.1\n")
    done = doctor()
    assert done.exit_code == 1
    assert "did you mean 'overhead'?" in done.output


def test_statistics_without_the_compiled_part_are_a_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mothtrap.cli.doctor.find_spec", lambda _: None)
    done = doctor()
    assert done.exit_code == 0
    assert "warning  compiled part: not built" in done.output


def test_an_unknown_rule_is_a_problem(folder: Path) -> None:
    (folder / "mothtrap.toml").write_text("[rules.STR70]\n")
    done = doctor()
    assert done.exit_code == 1
    assert "problem  rules: " in done.output


def test_adapters_of_other_distributions_are_listed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(folder, monkeypatch, {"mothtrap.adapters": {"little": "1 / 0", "litle": "1 / 0"}})
    (folder / "little.py").write_text("1 / 0")
    done = doctor()
    assert done.exit_code == 0
    assert "ok       adapter: little of their-plugins 1.2\n" in done.output
    assert "warning  adapter: litle of their-plugins 1.2 is not used" in done.output
    assert "no module 'litle' is installed" in done.output


def test_an_unknown_variable_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOTHTRAP_CAPTUER", "off")
    done = doctor()
    assert done.exit_code == 0
    assert "warning  environment: MOTHTRAP_CAPTUER is not a setting" in done.output


def test_being_switched_off_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOTHTRAP_DISABLE", "1")
    assert doctor().exit_code == 1


@pytest.mark.parametrize("below", ["", "deeper"])
def test_a_file_in_the_place_of_the_runs_folder_is_a_problem(folder: Path, below: str) -> None:
    (folder / "runs").write_text("")
    done = doctor("--runs-dir", str(Path("runs") / below))
    assert done.exit_code == 1
    assert "runs is a file, not a folder" in done.output
    assert "--runs-dir" in done.output


def test_a_runs_folder_that_cannot_be_written_is_a_problem(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(dir: Path) -> None:  # noqa: A002  # the name that the caller uses
        raise PermissionError(13, "Permission denied", str(dir))

    # Modes of a folder do not stop the superuser, as whom tests may run.
    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    done = doctor("--runs-dir", str(folder / "runs"))
    assert done.exit_code == 1
    assert "is not writable" in done.output
    assert "choose another folder with --runs-dir" in done.output
