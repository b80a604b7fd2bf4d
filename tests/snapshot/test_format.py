from __future__ import annotations

import builtins
import importlib
import math
import os
import random
import shutil
import subprocess
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file
from tests.snapshot import samples

from mothtrap.core.errors import DamagedSnapshotError
from mothtrap.core.snapshots import Array
from mothtrap.snapshot import format as form
from mothtrap.snapshot.tree import value_of, values_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = form.folder_of(tmp_path, 3, 0)
    form.write(folder, samples.snapshot(), samples.STATE, samples.STEPS)
    return folder


def test_what_was_written_is_read(folder: Path) -> None:
    loaded = form.load(folder)
    losses = loaded.snapshot.steps[0].losses
    assert math.isnan(losses[0])
    assert losses[1:] == (1.5, -math.inf)
    assert loaded.snapshot.state == samples.snapshot().state
    assert loaded.snapshot.steps[0].events == samples.snapshot().steps[0].events
    assert loaded.snapshot.truth == samples.snapshot().truth
    assert loaded.snapshot.lines == {"train.py": (7, 0)}
    assert list(loaded.state) == ["weight:w"]
    np.testing.assert_array_equal(values_of(loaded.steps["3/0"]), [1, 2, 3])
    assert sorted(p.name for p in folder.parent.iterdir()) == ["w0"]


def test_other_programs_read_the_arrays(folder: Path) -> None:
    found = load_file(folder / form.STATE)
    np.testing.assert_array_equal(found["weight:w"], np.arange(6, dtype=np.float32).reshape(2, 3))


@pytest.mark.parametrize(
    "dtype",
    [
        *("bool", "int8", "uint16", "float16", "float64", "complex64", "complex128", "bfloat16"),
        *("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e8m0fnu"),
    ],
)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0), (2, 3)])
def test_every_type_and_shape_comes_back_bit_by_bit(
    tmp_path: Path, dtype: str, shape: tuple[int, ...]
) -> None:
    kind = np.dtype(getattr(ml_dtypes, dtype, None) or dtype)
    data = np.arange(math.prod(shape) * kind.itemsize, dtype=np.uint8) % 2
    arrays = {"other": samples.array([1.0]), "it": Array(dtype=dtype, shape=shape, data=data)}
    form.write(tmp_path / "w0", samples.snapshot(), {}, arrays)
    found = form.load(tmp_path / "w0").steps["it"]
    assert (found.dtype, found.shape) == (dtype, shape)
    assert bytes(found.data) == bytes(data)


def test_one_that_lies_there_gives_way(folder: Path) -> None:
    form.write(folder, samples.snapshot(note="again"), {}, {})
    assert form.load(folder).snapshot.note == "again"
    assert [p.name for p in folder.parent.iterdir()] == ["w0"]


def test_a_write_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(form, "sync_file", full)
    with pytest.raises(OSError, match="No space"):
        form.write(form.folder_of(tmp_path, 3, 0), samples.snapshot(), samples.STATE, {})
    assert list((tmp_path / "snapshots").iterdir()) == []


def test_damage_is_refused_wherever_it_is(folder: Path, tmp_path: Path) -> None:
    chance = random.Random(0)
    for trial in range(300):
        copy = tmp_path / "copy"
        shutil.copytree(folder, copy)
        name = chance.choice([form.STATE, form.STEPS, form.HEAD])
        data = bytearray((copy / name).read_bytes())
        if trial % 2:
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        else:
            del data[chance.randrange(len(data)) :]
        (copy / name).write_bytes(bytes(data))
        with pytest.raises(DamagedSnapshotError, match=f"{name} cannot be used"):
            form.load(copy)
        shutil.rmtree(copy)


@pytest.mark.parametrize("name", [form.STATE, form.STEPS, form.HEAD])
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(DamagedSnapshotError, match=f"{name} cannot be used: it cannot be read"):
        form.load(folder)


def test_files_whose_checksums_were_made_to_fit_are_refused_too(folder: Path) -> None:
    (folder / form.STATE).write_bytes(b"\xff" * 100)
    with pytest.raises(DamagedSnapshotError, match="not the"):
        form.load(folder)
    head = form._read_head(folder)[0]
    digest = form.xxhash.xxh3_64_hexdigest(b"\xff" * 100)
    with pytest.raises(DamagedSnapshotError, match="not a safetensors file"):
        form._read_arrays(folder / form.STATE, form.StoredFile(100, digest))
    assert head.form == form.FORM


def test_a_list_names_all_and_says_which_are_damaged(folder: Path, tmp_path: Path) -> None:
    form.write(form.folder_of(tmp_path, 12, 1), samples.snapshot(12), {}, {})
    (folder / form.HEAD).write_bytes(b"{}")
    (tmp_path / "snapshots" / "draft").mkdir()
    found = form.stored(tmp_path)
    assert [(s.step, s.worker, s.snapshot is None) for s in found] == [(3, 0, True), (12, 1, False)]
    assert "checksum" in found[0].damage
    assert found[1].size_bytes == sum(p.stat().st_size for p in found[1].folder.iterdir())
    form.remove(folder)
    assert os.listdir(tmp_path / "snapshots") != []
    assert [s.step for s in form.stored(tmp_path)] == [12]


def test_loading_executes_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that could turn bytes into code raises, as does all that the snapshot names."""

    def forbidden(*_: object, **__: object) -> None:
        raise AssertionError("code was run")

    trap = {"named": "subprocess.Popen", "fields": {"args": {"list": ["false"]}}}
    absent = {"named": "this_module_does_not_exist.Trap", "fields": {}}
    state = {"dict": [["trap", trap], ["absent", absent], ["w", {"array": "weight:w"}]]}
    form.write(folder, samples.snapshot(state=state), samples.STATE, samples.STEPS)
    form.load(folder)  # once: msgspec reads the types of our own classes
    with monkeypatch.context() as patch:
        for name in ("pickle.loads", "pickle.load", "pickle.Unpickler", "marshal.loads"):
            patch.setattr(name, forbidden)
        patch.setattr(os, "system", forbidden)
        patch.setattr(subprocess.Popen, "__init__", forbidden)
        patch.setattr(importlib, "import_module", forbidden)
        for name in ("exec", "eval", "compile", "__import__"):
            patch.setattr(builtins, name, forbidden)
        loaded = form.load(folder)
        found = value_of(loaded.snapshot.state, loaded.state, forbidden)
    assert found["trap"] == {"args": ["false"]}
    assert found["absent"] == {}
    np.testing.assert_array_equal(found["w"], np.arange(6).reshape(2, 3))
