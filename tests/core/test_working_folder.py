"""A deleted working folder keeps its name, and paths are resolved against it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mothtrap.core.working_folder import absolute, shown, working_folder


def test_paths_are_seen_from_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert working_folder() == tmp_path
    assert absolute("sub/train.py") == str(tmp_path / "sub" / "train.py")
    assert shown(str(tmp_path / "sub" / "train.py")) == "sub/train.py"
    assert shown("../other.py") == str(tmp_path.parent / "other.py")


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_deleted_folder_is_the_one_of_the_start(tmp_path: Path, when: str) -> None:
    here, imported = tmp_path / "here", "import mothtrap.core.working_folder as w"
    here.mkdir()
    steps = ["import os", imported, "os.rmdir(os.getcwd())"]
    if when == "before":
        steps[1], steps[2] = steps[2], steps[1]
    code = "; ".join([*steps, "print(w.working_folder(), w.absolute('a'), w.shown('b'))"])
    found = subprocess.run(
        [sys.executable, "-c", code],
        cwd=here,
        env={"PWD": str(here)},
        text=True,
        stdout=subprocess.PIPE,
        check=True,
    )
    assert found.stdout == f"{here} {here / 'a'} b\n"
