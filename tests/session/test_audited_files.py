"""Permissions of the files of a model, and the run that logged the model file."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.behavior.asking import labels, people
from tests.cli.stored_run import store_run

from mothtrap import open_run
from mothtrap.cli import main
from mothtrap.core.facts.record import ItemLogged
from mothtrap.session.audited_files import audited, origin_of
from mothtrap.session.record.keeper import digest_of_file


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Return a folder that everyone can enter; those of pytest are closed to others."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if any(not each.stat().st_mode & 0o001 for each in folder.parents):
            pytest.skip("others cannot enter the folder of temporary files")
        folder.chmod(0o755)
        yield folder


def who(path: Path) -> tuple[str, str]:
    (found,) = audited({"model": str(path)})
    return found.readers, found.writers


def test_permissions_of_the_file_and_of_its_folder_count(open_folder: Path) -> None:
    model = open_folder / "model.ubj"
    model.write_bytes(b"m")
    model.chmod(0o600)
    assert who(model) == ("owner", "owner")
    model.chmod(0o640)
    assert who(model) == ("group", "owner")
    model.chmod(0o666)
    assert who(model) == ("everyone", "everyone")
    model.chmod(0o644)
    open_folder.chmod(0o777)  # anyone may put another file there
    assert who(model) == ("everyone", "everyone")
    open_folder.chmod(0o1777)
    assert who(model) == ("everyone", "owner")
    open_folder.chmod(0o700)  # others cannot enter it
    model.chmod(0o666)
    assert who(model) == ("owner", "owner")


def test_a_missing_file_is_left_out_and_a_folder_has_no_digest(tmp_path: Path) -> None:
    (found,) = audited({"model": str(tmp_path / "gone"), "runs": str(tmp_path)})
    assert (found.role, found.digest) == ("runs", "")


def test_files_in_git_have_versions(tmp_path: Path) -> None:
    for name in ("kept.csv", "loose.csv"):
        (tmp_path / name).write_text("a\n")
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    subprocess.run(["git", "-C", str(tmp_path), "add", "kept.csv"], check=True)
    found = audited({"a": str(tmp_path / "kept.csv"), "b": str(tmp_path / "loose.csv")})
    assert [each.versioned for each in found] == [True, False]


def logged(path: Path, model: Path, runs: Path) -> None:
    digest, size = digest_of_file(model)
    about = {"path": str(model)}
    fact = ItemLogged(
        step=7, name="m", kind="artifact", digest=digest, size_bytes=size, about=about
    )
    store_run(runs / path, facts=(fact,))


def test_the_run_that_logged_the_model_is_found_by_digest_or_path(tmp_path: Path) -> None:
    runs, model = tmp_path / "runs", tmp_path / "model.ubj"
    model.write_bytes(b"first")
    logged(Path("trained"), model, runs)
    moved = tmp_path / "moved.ubj"
    moved.write_bytes(b"first")
    for path in (model, moved):
        found = origin_of(audited({"model": str(path)})[0], runs)
        assert found is not None
        assert (found.run, found.step, found.is_same) == ("trained", 7, True)
    model.write_bytes(b"second")
    found = origin_of(audited({"model": str(model)})[0], runs)
    assert found is not None
    assert not found.is_same
    moved.write_bytes(b"third")
    assert origin_of(audited({"model": str(moved)})[0], runs) is None


def test_the_command_names_a_file_that_everyone_can_change(
    open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    xgboost = pytest.importorskip("xgboost")
    monkeypatch.chdir(open_folder)
    X = people(300)[["x0", "x1"]]
    y = labels(people(300), 0.1)
    xgboost.XGBClassifier(n_estimators=3).fit(X, y).save_model("model.ubj")
    X.assign(y=y).to_csv("held.csv", index=False)
    Path("model.ubj").chmod(0o666)
    words = ["probe", "model.ubj", "held.csv", "--target", "y", "--select", "BEH406,BEH606"]
    text = CliRunner().invoke(main, [*words, "--name", "before"]).output
    assert "BEH406 open_files" in text
    assert "every user of this machine can change the model" in text
    assert "BEH606" not in text
    run = open_run("runs/before")
    assert run.probed is not None
    assert [file.role for file in run.probed.files] == ["model", "data"]
    text = " ".join(CliRunner().invoke(main, ["show", "before"]).output.split())
    assert "held.csv: readable by everyone, writable by owner; not in version control" in text


def test_a_model_that_differs_from_the_logged_one_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    xgboost = pytest.importorskip("xgboost")
    monkeypatch.chdir(tmp_path)
    X, y = people(300)[["x0", "x1"]], labels(people(300), 0.1)
    X.assign(y=y).to_csv("held.csv", index=False)
    words = ["probe", "model.ubj", "held.csv", "--target", "y", "--select", "BEH606"]
    xgboost.XGBClassifier(n_estimators=3).fit(X, y).save_model("model.ubj")
    logged(Path("trained"), tmp_path / "model.ubj", tmp_path / "runs")
    text = " ".join(CliRunner().invoke(main, [*words, "--name", "same"]).output.split())
    assert "BEH606" not in text
    assert "model from the run trained, step 7" in text
    assert "runs: readable by" in text
    xgboost.XGBClassifier(n_estimators=5).fit(X, y).save_model("model.ubj")
    text = CliRunner().invoke(main, [*words, "--name", "changed"]).output
    assert "BEH606 model_changed" in text
    assert "the file that run trained logged" in " ".join(text.split())
