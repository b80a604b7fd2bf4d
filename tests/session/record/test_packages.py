"""The packages of the environment are listed, and the container image is identified."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path

import pytest

from mothtrap.session.record import packages
from mothtrap.store.layout import packages_in


def test_each_installed_package_has_its_version() -> None:
    lines = packages.lock_lines()
    assert lines == sorted(lines, key=lambda line: line.partition("==")[0].partition(" ")[0])
    found = packages_in(lines)
    for name in ("numpy", "msgspec", "pytest"):
        assert found[name] == version(name)


def test_a_package_of_a_repository_has_its_commit_and_no_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "own_model-1.2.dist-info"
    folder.mkdir()
    told = {
        "url": "https://user:hidden@host/model.git",
        "vcs_info": {"vcs": "git", "commit_id": "abc"},
    }
    (folder / "direct_url.json").write_text(json.dumps(told))
    monkeypatch.setattr("sys.path", ["", str(tmp_path)])
    [line] = [line for line in packages.lock_lines() if line.startswith("own-model")]
    assert line == "own-model @ git+https://host/model.git@abc"


def test_the_image_is_that_of_podman_else_of_a_variable(tmp_path: Path) -> None:
    file = tmp_path / ".containerenv"
    variables = {"CONTAINER_IMAGE": "registry/train:3"}
    assert packages.container_image({}, file) == ""
    assert packages.container_image(variables, file) == "registry/train:3"
    file.write_text('engine="podman"\nimage="docker.io/train:4"\n')
    assert packages.container_image(variables, file) == "docker.io/train:4"
