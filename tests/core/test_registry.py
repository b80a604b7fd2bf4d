"""Parts are found by their file names, and those of plug-ins by entry points."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.plugins import install

from mothtrap.core import registry
from mothtrap.core.errors import PluginError, UnknownNameError


@pytest.fixture(autouse=True)
def _forget_modules() -> Iterator[None]:
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "theirs"]:
        del sys.modules[name]


def test_lists_public_modules_without_importing_them() -> None:
    names = registry.names("mothtrap.adapters")
    assert "torch" in names
    assert not [name for name in registry.names("mothtrap.rules") if name.startswith("_")]


def test_loads_only_the_one_asked_for() -> None:
    module = registry.load("mothtrap.rules", "nonfinite_loss")
    assert module is sys.modules["mothtrap.rules.nonfinite_loss"]


def test_an_unknown_part_names_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'dead_units'"):
        registry.load("mothtrap.rules", "dead_unit")


def test_a_part_of_another_distribution_is_found_but_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, {"mothtrap.adapters": {"strange": "X = 7\n"}})
    assert "strange" in registry.names("mothtrap.adapters")
    assert "theirs" not in sys.modules
    assert registry.load("mothtrap.adapters", "strange").X == 7


def test_a_part_is_found_in_every_folder_of_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = install(tmp_path, monkeypatch, {"mothtrap.adapters": {"strange": "X = 7\n"}})
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p != str(folder)] + [str(folder)])
    assert "strange" in registry.names("mothtrap.adapters")


def test_our_part_goes_before_one_of_the_same_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, {"mothtrap.adapters": {"torch": "X = 7\n"}})
    assert registry.names("mothtrap.adapters").count("torch") == 1
    assert [p.origin for p in registry.parts("mothtrap.adapters") if p.name == "torch"] == [""]


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import no_such_module_at_all\n", "ModuleNotFoundError: No module named 'no_such_mod"),
        ("def broken(:\n", "SyntaxError"),
        ("raise SystemExit(3)\n", "SystemExit: 3"),
    ],
)
def test_a_broken_part_is_named_with_its_distribution(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, reason: str
) -> None:
    install(tmp_path, monkeypatch, {"mothtrap.adapters": {"strange": source}})
    message = rf"'strange' of their-plugins 1\.2 .*mothtrap\.adapters.*{reason}"
    with pytest.raises(PluginError, match=message):
        registry.load("mothtrap.adapters", "strange")


@pytest.mark.parametrize("value", ["theirs.strange:X", "theirs", "not a value at all"])
def test_an_entry_point_must_be_a_module_of_its_own_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    folder = install(tmp_path, monkeypatch, {"mothtrap.adapters": {"strange": "X = 7\n"}})
    points = folder / "their_plugins-1.2.dist-info" / "entry_points.txt"
    points.write_text(f"[mothtrap.adapters]\nstrange = {value}\n")
    with pytest.raises(PluginError, match="'strange' of their-plugins"):
        registry.load("mothtrap.adapters", "strange")
