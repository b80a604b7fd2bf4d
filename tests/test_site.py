"""The site builds without a warning: every page, every link in it, every public name."""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import mothtrap

DOCS = Path(__file__).parents[1] / "docs"


def build(source: Path, target: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Build a site as `make site` does."""
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", *options]
    return subprocess.run([*command, source, target], capture_output=True, text=True, check=False)


def test_every_public_name_is_in_the_documentation() -> None:
    api = (DOCS / "api.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"^\.\. auto\w+:: mothtrap\.(\w+)$", api, re.MULTILINE))
    for module in re.findall(r"^\.\. automodule:: (\S+)$", api, re.MULTILINE):
        documented |= vars(importlib.import_module(module)).keys()
    assert set(mothtrap.__all__) <= documented


@pytest.mark.full
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    plain = "html_theme=basic"  # the tree of all pages beside each page takes half of the time
    done = build(DOCS, tmp_path, "-D", plain)
    assert (done.returncode, done.stderr) == (0, "")
    built = {path.stem for path in tmp_path.glob("*.html")}
    assert {page.stem for page in DOCS.glob("*.md")} <= built
    api = (tmp_path / "api.html").read_text(encoding="utf-8")
    documented = set(re.findall(r'id="mothtrap\.(?:\w+\.)*(\w+)"', api))
    assert set(mothtrap.__all__) <= documented


def test_the_build_sees_a_dead_link_and_a_page_that_is_nowhere(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    shutil.copy(DOCS / "conf.py", tmp_path / "docs")
    (tmp_path / "docs" / "index.md").write_text("# A\n\n[gone](gone.md)\n")
    (tmp_path / "docs" / "lost.md").write_text("# Lost\n")
    done = build(tmp_path / "docs", tmp_path / "site")
    assert done.returncode != 0
    assert "gone.md" in done.stderr
    assert "lost.md" in done.stderr
