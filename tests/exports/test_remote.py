"""A run in an object store is exported like one on the disk."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mothtrap.exports import export_run
from mothtrap.reader.run import Run, open_run


@pytest.mark.parametrize("form", ["chrome-trace", "safetensors", "tensorboard"])
def test_the_same_is_written_of_a_run_in_an_object_store(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.setenv("MOTHTRAP_CACHE", str(tmp_path / "cache"))
    far = open_run(run.path.as_uri())
    assert far.path != run.path
    assert not list(far.path.rglob("raw-*"))
    export_run(run, form, tmp_path / "near")
    export_run(far, form, tmp_path / "far")
    assert contents(tmp_path / "far") == contents(tmp_path / "near")


def contents(path: Path) -> dict[str, object]:
    """Return the contents of the files below a path, by name."""
    files = sorted(p for p in (path, *path.rglob("*")) if p.is_file())
    return {str(p.relative_to(path)): content(p) for p in files}


def content(path: Path) -> object:
    """Return the bytes of a file; a safetensors header is parsed, because its order varies."""
    data = path.read_bytes()
    if path.suffix != ".safetensors":
        return data
    begin = 8 + int.from_bytes(data[:8], "little")
    return json.loads(data[8:begin]), data[begin:]
