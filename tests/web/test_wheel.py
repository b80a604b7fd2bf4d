"""A wheel, installed without Node, contains every file of the page."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from mothtrap.web.static_files import static_files

ROOT = Path(__file__).parents[2]
SCRIPT = """
import http.client, sys, threading
sys.path.insert(0, sys.argv[1])
import mothtrap.web
assert mothtrap.web.__file__.startswith(sys.argv[1]), mothtrap.web.__file__
from mothtrap.web import server
from mothtrap.web.listing import RunsFolder
from mothtrap.web.static_files import static_files
bound = server.listen(port=0)
running = server.http_server(server.build(RunsFolder(sys.argv[1]), "t" * 43))
threading.Thread(target=running.run, kwargs={"sockets": [bound]}, daemon=True).start()
client = http.client.HTTPConnection("127.0.0.1", bound.getsockname()[1], timeout=30)
for name in ["", *static_files()]:
    client.request("GET", f"/{name}", headers={"Authorization": "Bearer " + "t" * 43})
    answer = client.getresponse()
    body = answer.read()
    assert answer.status == 200 and body, name
print(len(static_files()))
running.should_exit = True
"""


def test_a_wheel_serves_every_file_without_node(tmp_path: Path) -> None:
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("the wheel is made from the files that git knows")
    pytest.importorskip("setuptools", "77", reason="a wheel is made with setuptools 77")
    source = tmp_path / "source"
    named = subprocess.run(
        ["git", "ls-files", "-z", "src", "pyproject.toml", "README.md", "LICENSE"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    for name in named.split("\0"):
        if name and not name.endswith((".c", ".h")) and (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, source / name)
    built = subprocess.run(
        [sys.executable, "-c", "from setuptools import build_meta as b; b.build_wheel('dist')"],
        cwd=source,
        env={"PATH": "/nowhere"},
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr[-2000:]
    (wheel,) = (source / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "installed")],
        env={"PATH": "/nowhere", "HOME": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) == len(static_files())
