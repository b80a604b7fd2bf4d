"""The files of the page: vendored files match LOCK.json, and no other server is asked for files."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest

from mothtrap.report.style import SEVERITY_GLYPHS, STATE_GLYPHS
from mothtrap.web.static_files import INDEX, import_map_hash, static_files

STATIC = Path(__file__).parents[2] / "src" / "mothtrap" / "web" / "static"
VENDORED = (STATIC / "vendor", Path(__file__).parent / "vendor")
OURS = sorted(path for path in STATIC.rglob("*") if path.suffix in (".js", ".css", ".html"))
OURS = [path for path in OURS if "vendor" not in path.parts]
IMPORT = re.compile(r"""^\s*(?:import|export)\b[^"';]*?\bfrom\s*["']([^"']+)["']""", re.MULTILINE)


def import_map() -> dict[str, str]:
    text = (STATIC / INDEX).read_text()
    found = re.search(r'<script type="importmap">(.*?)</script>', text)
    assert found is not None
    return json.loads(found.group(1))["imports"]


@pytest.mark.parametrize("folder", VENDORED, ids=["page", "tests"])
def test_vendored_files_are_those_of_the_lock(folder: Path) -> None:
    lock = json.loads((folder / "LOCK.json").read_text())
    assert {entry["file"] for entry in lock} == {p.name for p in folder.iterdir()} - {"LOCK.json"}
    for entry in lock:
        data = (folder / entry["file"]).read_bytes()
        assert hashlib.sha256(data).hexdigest() == entry["sha256"], entry["file"]
        assert entry["licence"] in ("MIT", "Apache-2.0", "MPL-2.0")
        assert b"sourceMappingURL" not in data


def test_every_import_has_a_file() -> None:
    known = import_map()
    for path in STATIC.rglob("*.js"):
        text = path.read_text()
        names = IMPORT.findall(text)
        if path.parent.name == "vendor":
            names += re.findall(r'\bfrom"([@./\w-]+)"', text)
        for name in names:
            target = STATIC / known[name] if name in known else path.parent / name
            assert target.resolve().is_file(), f"{path.name} imports {name}"


def test_what_the_index_names_is_there() -> None:
    named = re.findall(r'(?:href|src)="\./([^"]+)"', (STATIC / INDEX).read_text())
    assert "app.js" in named
    assert set(named) <= static_files().keys()
    assert import_map_hash().startswith("sha256-")


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.name)
def test_own_files_keep_the_rules_of_the_page(path: Path) -> None:
    text = path.read_text()
    for forbidden in ("dangerouslySetInnerHTML", "innerHTML", "eval(", "http://", "https://"):
        assert forbidden not in text.replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"\sstyle=\"|\son[a-z]+=\"", text)
    assert len(text.splitlines()) <= 400


def test_what_the_first_screen_loads_of_ours_is_small() -> None:
    first = [INDEX, "app.js", "style.css"]
    assert sum(len(static_files()[name].data) for name in first) < 125_000
    assert sum(path.stat().st_size for path in OURS) < 290_000


def test_the_page_has_the_signs_of_reports() -> None:
    text = (STATIC / "parts/status.js").read_text()
    signs = dict(re.findall(r'(\w+): \["(.)",', text))
    assert {state.value: sign for state, sign in STATE_GLYPHS.items()}.items() <= signs.items()
    severities = {severity.value: sign for severity, sign in SEVERITY_GLYPHS.items()}
    assert severities.items() <= signs.items()
