"""The command that installs the packages of an extra."""

from __future__ import annotations

import importlib.metadata
import re
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

import mothtrap
from mothtrap.core import extras
from mothtrap.core.errors import MissingExtraError
from mothtrap.core.extras import install_command

SOURCES = sorted(Path(mothtrap.__file__).parent.rglob("*.py"))


def test_the_packages_of_an_extra_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    needed = ["msgspec>=0.18", 'uvicorn>=0.30; extra == "web"', "starlette>=1; extra == 'web'"]
    monkeypatch.setattr(importlib.metadata, "requires", lambda _: [*needed, 'x; extra == "webx"'])
    assert install_command("web") == "pip install 'starlette>=1' 'uvicorn>=0.30'"
    assert str(MissingExtraError("the page", "starlette", "web")) == (
        "the page needs the package 'starlette', which is not installed; "
        "pip install 'starlette>=1' 'uvicorn>=0.30'"
    )


def test_a_source_tree_that_is_not_installed_has_no_packages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(_: str) -> list[str]:
        raise PackageNotFoundError

    monkeypatch.setattr(importlib.metadata, "requires", missing)
    assert install_command("web") == "install mothtrap with the extra 'web'"


def test_no_text_names_a_package_that_is_not_on_the_index() -> None:
    """The first line of `core/extras.py` explains why."""
    printed = [path for path in SOURCES if re.search(r"pip install .?mothtrap", path.read_text())]
    assert printed == [Path(extras.__file__)]


def test_every_extra_that_is_named_exists() -> None:
    arguments = r"[^()]*(?:\([^()]*\)[^()]*)*,\s*"
    call = re.compile(rf"(?:MissingExtraError\({arguments}|install_command\()[\"'](\w+)[\"']")
    named = {extra for path in SOURCES for extra in call.findall(path.read_text())}
    assert {"web", "plot", "check", "s3", "tensorboard"} <= named
    known = importlib.metadata.metadata("mothtrap").get_all("Provides-Extra") or []
    assert named <= set(known)
    assert all(install_command(extra).startswith("pip install") for extra in named)
