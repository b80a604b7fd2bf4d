"""`mothtrap run` as a user types it, and the demo."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.cli.stored_run import store_run
from tests.harness.running import MOTHTRAP, Outcome, run

from mothtrap.cli import demo


def mothtrap(*args: str, cwd: Path) -> Outcome:
    return run([*MOTHTRAP, *args], cwd=cwd, env=os.environ)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a script that does not train and prints how it was called."""
    (tmp_path / "echo.py").write_text(
        "import sys\nprint(sys.argv[1:], __name__)\nsys.exit(len(sys.argv) - 1)\n"
    )
    return tmp_path


def test_arguments_and_exit_code_are_the_scripts_own(folder: Path) -> None:
    done = mothtrap("run", "--name", "a", "echo.py", "--name", "b", "-v", cwd=folder)
    assert done.stdout == "['--name', 'b', '-v'] __main__\n"
    assert done.returncode == 3
    assert (folder / "runs" / "a").is_dir()


def test_a_module_gets_its_arguments(folder: Path) -> None:
    done = mothtrap("run", "--runs-dir", "kept", "-m", "echo", "--name", cwd=folder)
    assert done.stdout == "['--name'] __main__\n"
    assert done.returncode == 1
    assert len(list((folder / "kept").iterdir())) == 1


def test_a_command_is_started_as_it_stands(folder: Path) -> None:
    done = mothtrap("run", "--", sys.executable, "echo.py", cwd=folder)
    assert done.stdout == "[] __main__\n"
    assert done.returncode == 0


def test_a_script_that_trains_nothing_gets_the_verdict_that_nothing_was_observed(
    folder: Path,
) -> None:
    done = mothtrap("run", "--name", "a", "echo.py", cwd=folder)
    assert "Nothing was observed" in done.stderr
    assert "Nothing was observed" in mothtrap("show", cwd=folder).stdout


def test_a_name_that_exists_is_refused_before_the_script_starts(folder: Path) -> None:
    store_run(folder / "runs" / "a")
    done = mothtrap("run", "--name", "a", "echo.py", cwd=folder)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "choose another name with --name, continue the run with --resume" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_unknown_rule_is_refused_before_the_script_starts(folder: Path) -> None:
    (folder / "mothtrap.toml").write_text("[rules.STR70]\n")
    done = mothtrap("run", "echo.py", cwd=folder)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "did you mean 'STR7" in done.stderr


def test_an_unknown_variable_is_a_warning(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOTHTRAP_CAPTUER", "off")
    done = mothtrap("run", "echo.py", cwd=folder)
    assert done.returncode == 0
    assert "MOTHTRAP_CAPTUER is not a setting of mothtrap (did you mean" in done.stderr


def test_the_demo_finds_the_mistake_and_then_none(tmp_path: Path) -> None:
    done = mothtrap("demo", cwd=tmp_path)
    assert done.returncode == 0
    assert "runs/demo-program/digits.py:" in done.stderr
    listed = json.loads(mothtrap("ls", "--format", "json", cwd=tmp_path).stdout)
    assert len(listed) == 2
    assert listed[0]["verdict"].startswith("Softmax before cross entropy since step 0")
    assert listed[1]["verdict"].startswith("Nothing wrong was found")


def test_the_demo_says_what_to_install(tmp_path: Path) -> None:
    code = (
        "import importlib.util as u, sys; find = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'sklearn' else find(name, *a)\n"
        "from mothtrap.cli import main; main(['demo'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == 2
    assert "the demo needs scikit-learn" in done.stderr
    assert "-m pip install scikit-learn" in done.stderr
    assert set(demo.NEEDED["torch"]) == {"torch", "sklearn"}
    assert set(demo.SCRIPTS) == set(demo.NEEDED)
    assert not list(tmp_path.iterdir())


def test_the_demo_says_where_it_cannot_write(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = mothtrap("demo", "--runs-dir", "file", cwd=tmp_path)
    assert done.returncode == 2
    assert "cannot write the demo's program to file/demo-program/digits.py" in done.stderr
    assert "--runs-dir" in done.stderr


@pytest.mark.skipif(not Path("/bin/sh").exists(), reason="needs a shell")
def test_the_time_of_a_shell_before_it_is_not_counted_as_that_of_the_launcher(
    tmp_path: Path,
) -> None:
    # The last command of a script takes the process of its shell, and with it the start time:
    # a run at the end of a list of jobs was once said to have cost six minutes.
    code = "import time, mothtrap.cli.run as run; print(time.time() - run.BEGAN_S)"
    first = [sys.executable, "-c", code]
    shell = subprocess.Popen(
        ["/bin/sh", "-c", 'read line; exec "$@"', "sh", *first],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    run(first, cwd=tmp_path, env=os.environ)  # the shell gets older meanwhile
    began_s = time.monotonic()
    printed, _ = shell.communicate("go\n", timeout=60)
    assert 0.0 < float(printed) <= time.monotonic() - began_s
