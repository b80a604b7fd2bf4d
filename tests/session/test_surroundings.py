from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
import xxhash

from mothtrap.session.surroundings import (
    environment,
    hardware,
    installed_versions,
    python_facts,
    sources,
    versions,
)
from mothtrap.store.source_digests import digests_of


def test_versions_are_those_of_what_was_imported() -> None:
    found = versions(dict(sys.modules))
    assert found["psutil"] == sys.modules["psutil"].__version__
    assert found["pytest"] == sys.modules["pytest"].__version__
    assert not {"os", "re", "mothtrap"} & set(found)


def test_a_module_that_loads_itself_when_asked_is_not_asked(tmp_path: Path) -> None:
    (tmp_path / "lazy.py").write_text("raise RuntimeError('loaded')\n")
    spec = importlib.util.spec_from_file_location("lazy", tmp_path / "lazy.py")
    assert spec is not None
    assert spec.loader is not None
    spec.loader = importlib.util.LazyLoader(spec.loader)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    versions({"lazy": module})
    sources({"lazy": module})
    with pytest.raises(RuntimeError, match="loaded"):
        module.anything  # the counterpart: it does load itself


def test_sources_are_the_scripts_own_files(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("a = 1\n")
    module = ModuleType("train")
    module.__file__ = str(script)
    others = {name: found for name, found in sys.modules.items() if name != "train"}
    modules = {"train": module, **others}  # first: only this many files are digested
    found = sources(modules)
    assert found[str(script)] == xxhash.xxh3_64_hexdigest(b"a = 1\n")
    assert not any("site-packages" in path or "/mothtrap/src/" in path for path in found)
    assert digests_of([str(script), "missing.py"], tmp_path) == {str(script): found[str(script)]}


def test_what_is_no_file_is_not_read(tmp_path: Path) -> None:
    assert digests_of(["/dev/zero", "a\0b", str(tmp_path)], tmp_path) == {}


def test_only_variables_of_the_list_are_kept() -> None:
    given = {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "x" * 999, "HF_TOKEN": "hf_secret"}
    found = environment(given)
    assert found == {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "x" * 200}


def test_versions_here_are_those_that_are_installed() -> None:
    found = installed_versions(["psutil", "nobody_has_this", "os"])
    assert found["psutil"] == sys.modules["psutil"].__version__
    assert found["nobody_has_this"] is None
    assert "os" not in found


def test_every_section_is_there() -> None:
    assert set(python_facts()) == {
        *("determinism", "versions", "hardware", "environment", "sources"),
    }
    assert hardware()["cores"]


def test_a_module_that_is_imported_later_is_among_the_facts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mothtrap.session.surroundings.MAX_SOURCES", 100_000)  # all tests' files
    before = python_facts()["sources"]
    (tmp_path / "imported_later.py").write_text("a = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("imported_later")
    after = python_facts()["sources"]
    assert set(after) - set(before) == {str(tmp_path / "imported_later.py")}
    monkeypatch.delitem(sys.modules, "imported_later")
    assert python_facts()["sources"] == before
