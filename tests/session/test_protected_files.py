"""Files of the user while a script is checked; each case in its own process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

CASES = {
    "write": "open('kept.txt', 'w').write('new')\nassert open('kept.txt').read() == 'new'",
    "append": "open('kept.txt', 'a').write('+')\nassert open('kept.txt').read() == 'old+'",
    "descriptor": "import os\nos.write(os.open('kept.txt', os.O_WRONLY | os.O_TRUNC), b'x')",
    "remove": "import os\nos.remove('kept.txt')",
    "rename": "import os\nos.replace('kept.txt', 'b.txt')\nassert open('b.txt').read() == 'old'",
    "folder": "from pathlib import Path\nPath('a/b').mkdir(parents=True)\n"
    "Path('a/b/c').write_text('x')\nassert Path('a/b/c').exists()",
    "tree": "import shutil\nshutil.rmtree('folder')",
    "own tree": "import os, shutil\nos.makedirs('new/x')\nopen('new/x/y', 'w').close()\n"
    "shutil.rmtree('new')\nassert not os.path.exists('new')",
    "copy": "import shutil\nshutil.copy('kept.txt', 'folder/copy')",
    "temporary": "import tempfile\nwith tempfile.NamedTemporaryFile() as f: f.write(b'x')",
    "database": "import sqlite3\nb = sqlite3.connect('base.db')\nb.execute('create table t (x)')\n"
    "b.commit()",
}


def started(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    """Run code in a process whose files are protected."""
    scratch = folder / "scratch"
    scratch.mkdir()
    plan = scratch / "plan.json"
    plan.write_text(json.dumps({"scratch": str(scratch), "kept": [], "network": False}))
    begin = f"from mothtrap.session.protected_files import protect\nprotect({str(plan)!r})\n"
    home = folder / "home"
    (home / "folder").mkdir(parents=True)
    (home / "kept.txt").write_text("old")
    (home / "folder" / "inner.txt").write_text("inner")
    words = [sys.executable, "-c", begin + code]
    return subprocess.run(words, cwd=home, capture_output=True, text=True, timeout=120)


def tree(home: Path) -> dict[str, str]:
    return {str(p.relative_to(home)): p.read_text() for p in home.rglob("*") if p.is_file()}


@pytest.mark.parametrize("case", CASES)
def test_the_script_sees_its_change_and_the_files_do_not(tmp_path: Path, case: str) -> None:
    made = started(tmp_path, CASES[case])
    assert made.returncode == 0, made.stderr
    assert tree(tmp_path / "home") == {"kept.txt": "old", "folder/inner.txt": "inner"}


def test_what_cannot_be_led_is_refused(tmp_path: Path) -> None:
    made = started(tmp_path, "import posix\nposix.remove('kept.txt')")
    assert "changes no file" in made.stderr
    assert tree(tmp_path / "home")["kept.txt"] == "old"


def test_other_machines_are_refused_and_this_one_is_not(tmp_path: Path) -> None:
    code = (
        "import socket\nserver = socket.create_server(('127.0.0.1', 0))\n"
        "socket.create_connection(server.getsockname()).close()\n"
        "socket.create_connection(('192.0.2.1', 80), timeout=1)"
    )
    made = started(tmp_path, code)
    assert "blocked a connection to 192.0.2.1" in made.stderr
