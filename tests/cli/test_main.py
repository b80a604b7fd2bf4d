"""The command line as a whole: help, errors, exit codes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from tests.harness.running import MOTHTRAP, Outcome, run

from mothtrap.cli import main
from mothtrap.cli._group import CommandFolder
from mothtrap.core.errors import ConfigError

COMMANDS = [
    "ack",
    "actions",
    "analyze",
    "archive",
    "capture",
    "check",
    "condition",
    "config",
    "demo",
    "diff",
    "doctor",
    "export",
    "fix",
    "gc",
    "group",
    "help",
    "learn",
    "ls",
    "mcp",
    "monitor",
    "mute",
    "note",
    "probe",
    "replay",
    "report",
    "rm",
    "rule",
    "rules",
    "run",
    "samples",
    "show",
    "skill",
    "snapshot",
    "stop",
    "tag",
    "top",
    "ui",
    "upload",
    "workers",
]


def mothtrap(*args: str, cwd: Path) -> Outcome:
    return run([*MOTHTRAP, *args], cwd=cwd)


def test_help_lists_every_command_with_a_sentence() -> None:
    shown = CliRunner().invoke(main, ["--help"]).output
    listed = [
        line.split() for line in shown.partition("Commands:")[2].splitlines() if line[2:3] > " "
    ]
    assert [words[0] for words in listed] == COMMANDS
    assert all(len(words) > 3 for words in listed)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself_and_agrees_with_the_list(name: str) -> None:
    folder = Path(sys.modules["mothtrap.cli"].__file__ or "").parent
    first = (folder / f"{name}.py").read_text(encoding="utf-8").splitlines()[0].strip('"')
    shown = CliRunner().invoke(main, [name, "--help"])
    assert shown.exit_code == 0
    assert first.rstrip(".") in " ".join(shown.output.split())


def test_help_imports_nothing_heavy(tmp_path: Path) -> None:
    code = (
        "import sys; from click.testing import CliRunner; from mothtrap.cli import main;"
        "assert CliRunner().invoke(main, ['--help']).exit_code == 0;"
        "print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    loaded = {name.split(".")[0] for name in done.stdout.split()}
    assert not loaded & {"torch", "numpy", "pyarrow", "rich", "msgspec", "sklearn"}


def test_version_is_that_of_the_package(tmp_path: Path) -> None:
    from importlib.metadata import version

    assert mothtrap("--version", cwd=tmp_path).stdout == f"mothtrap {version('mothtrap')}\n"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["shw"], "no command 'shw' (did you mean 'show'?)"),
        (["train.py"], "to watch a script: mothtrap run train.py"),
        (["rule", "STR701X"], "no rule 'STR701X' (did you mean 'STR701'?)"),
        (["rule", "dead_unitz"], "no rule 'dead_unitz' (did you mean 'dead_units'?)"),
        (["rule", "NOPE"], "no rule 'NOPE'; `mothtrap rules` lists them"),
        (["run", "--name", "a/b", "x.py"], "--name 'a/b' is not a valid name of a run"),
        (["run", "--name", "a\\b", "x.py"], "is not a valid name of a run"),
        (["run", "--name", "..", "x.py"], "--name '..' is not a valid name of a run"),
        (["run", "--name", "", "x.py"], "--name '' is not a valid name of a run"),
        (
            ["upload", "x", "--to", "file:///x", "--name", "a/b"],
            "--name 'a/b' is not a valid name of a run",
        ),
        (["run", "--overhead", "2", "-m", "x"], "it is a share of the training time"),
        (["run", "--overhead", "2%", "-m", "x"], "must be a number such as 0.02, not '2%'"),
        (["ls", "nosuchdir"], "the folder nosuchdir does not exist"),
        (["run", "nope.py"], "no script 'nope.py'"),
        (["run", "--capture", "all", "x.py"], "'all' is not one of"),
        (["show", "no-such-run"], "no-such-run"),
    ],
)
def test_mistakes_are_answered_in_words_with_exit_code_2(
    tmp_path: Path, args: list[str], message: str
) -> None:
    done = mothtrap(*args, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_a_typo_in_the_configuration_stops_before_the_script_starts(tmp_path: Path) -> None:
    (tmp_path / "mothtrap.toml").write_text("overhaed = 0.1\n")
    (tmp_path / "train.py").write_text("open('started', 'w').close()\n")
    done = mothtrap("run", "train.py", cwd=tmp_path)
    assert done.returncode == 2
    assert "unknown key 'overhaed' (did you mean 'overhead'?)" in done.stderr
    assert not (tmp_path / "started").exists()


def failing_group(error: Exception) -> CommandFolder:
    folder = Path(sys.modules["mothtrap.cli"].__file__ or "").parent

    @click.group(cls=CommandFolder, folder=folder, package="mothtrap.cli")
    @click.option("-v", "verbose", is_flag=True)
    @click.pass_context
    def group(context: click.Context, verbose: bool) -> None:
        context.obj = verbose
        raise error

    assert isinstance(group, CommandFolder)
    return group


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ConfigError("mothtrap.toml: bad"), "error: mothtrap.toml: bad"),
        (PermissionError(13, "Permission denied", "/x"), "error: [Errno 13] Permission denied"),
        (RuntimeError("odd"), "error: mothtrap itself failed: RuntimeError: odd; this is a bug"),
    ],
)
def test_own_errors_show_a_traceback_only_when_asked(error: Exception, message: str) -> None:
    quiet = CliRunner().invoke(failing_group(error), ["rules"])
    assert quiet.exit_code == 2
    assert quiet.stderr.startswith(message)
    assert "Traceback" not in quiet.stderr
    loud = CliRunner().invoke(failing_group(error), ["-v", "rules"])
    assert loud.exit_code == 2
    assert "Traceback" in loud.stderr
    assert message in loud.stderr
