"""Logged objects are kept within limits, under names that are not paths."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mothtrap.core import jsonable
from mothtrap.core.fact import Fact
from mothtrap.core.facts.record import ItemLogged, ParametersLogged
from mothtrap.core.record_items import FILE, FOLDER, MAX_NAME, Table
from mothtrap.session.record import keeper
from mothtrap.session.record.keeper import RecordKeeper
from mothtrap.session.record.logging import RecordLog


class Sink:
    """Takes facts, as the notes of a step do."""

    def __init__(self) -> None:
        self.facts: list[Fact] = []
        self.unseen: list[str] = []
        self.said: list[str] = []

    def observe(self, observation: Fact, *, may_be_next: bool = False) -> None:
        self.facts.append(observation)

    def blind(self, step: int, what: str, reason: str) -> None:
        self.unseen.append(f"{what}: {reason}")


Logged = tuple[RecordLog, Sink, Path]


@pytest.fixture
def logged(tmp_path: Path) -> Logged:
    sink, worker = Sink(), tmp_path / "w0"
    worker.mkdir()
    kept = RecordKeeper(sink, lambda: 7, sink.said.append)
    kept.open(worker)
    return RecordLog(kept), sink, worker / FOLDER


def items(sink: Sink) -> list[ItemLogged]:
    return [fact for fact in sink.facts if isinstance(fact, ItemLogged)]


def test_everything_is_kept_under_a_number(logged: Logged) -> None:
    log, sink, folder = logged
    log.log_params({"lr": 0.1, "model": {"layers": 2}}, seed=3)
    log.log_text("../../etc/passwd", "a text")
    log.log_table("rows", [{"a": 1, "b": torch.tensor(2.5)}, {"a": "x"}])
    log.log_image("picture\0\n", torch.rand(3, 4, 5))
    log.log_predictions(torch.tensor([0, 1]), torch.tensor([0.1, 0.9]), classes=["no", "yes"])
    log.log_figure("html", "<h1>x</h1>")
    log.log_figure("n" * 1000, {"mark": "bar", "when": np.datetime64("2020-01-01")})
    assert sink.said == []
    parameters = [fact for fact in sink.facts if isinstance(fact, ParametersLogged)]
    assert [fact.values for fact in parameters] == [{"lr": 0.1, "model.layers": 2}, {"seed": 3}]
    found = items(sink)
    assert [item.kind for item in found] == [
        *("text", "table", "image", "predictions", "figure", "figure")
    ]
    assert sorted(path.name for path in folder.iterdir()) == sorted(item.file for item in found)
    assert all(FILE.fullmatch(item.file) and item.step == 7 for item in found)
    assert found[0].name == "../../etc/passwd"
    assert len(found[-1].name) == MAX_NAME
    table = jsonable.decode((folder / found[1].file).read_bytes(), Table)
    assert table.rows == [[1, 2.5], ["x", None]]
    assert found[2].about == {"height": 4, "width": 5}
    assert found[3].about["accuracy"] == 1.0


def test_what_was_logged_before_the_first_step_waits(tmp_path: Path) -> None:
    sink = Sink()
    kept = RecordKeeper(sink, lambda: 7, sink.said.append)
    RecordLog(kept).log_text("early", "x")
    assert [item.name for item in kept.waiting if isinstance(item, ItemLogged)] == ["early"]
    kept.open(tmp_path)
    assert (tmp_path / FOLDER / items(sink)[0].file).read_text() == "x"
    assert kept.waiting == []


class Odd:
    def __iter__(self) -> Any:
        raise RuntimeError("no rows")


@pytest.mark.parametrize(
    "act",
    [
        lambda log, _: log.log_text("x", 3),
        lambda log, _: log.log_text(3, "x"),
        lambda log, _: log.log_text("x", "y" * (2 << 20)),
        lambda log, _: log.log_table("x", Odd()),
        lambda log, _: log.log_image("x", np.zeros((2, 2, 2, 2))),
        lambda log, _: log.log_image("x", np.zeros((1, 9000), np.uint8)),
        lambda log, _: log.log_figure("x", object()),
        lambda log, _: log.log_figure("x", "<p>" + "x" * (200 << 20)),
        lambda log, _: log.log_predictions([0, 1], [0.1]),
        lambda log, folder: log.log_artifact(folder / "missing"),
        lambda log, folder: log.log_artifact(_pipe(folder)),
        lambda log, folder: log.log_artifact(folder, keep=True),
    ],
)
def test_what_cannot_be_kept_is_said_once_and_harms_nothing(
    logged: Logged, tmp_path: Path, act: Callable[[RecordLog, Path], None]
) -> None:
    log, sink, folder = logged
    act(log, tmp_path)
    act(log, tmp_path)
    [line] = sink.said
    assert "is not stored" in line
    assert len(line) < 1000
    assert len(sink.unseen) == 2
    assert items(sink) == []
    assert not folder.exists()


def _pipe(folder: Path) -> Path:
    path = folder / "pipe"
    if not path.exists():
        os.mkfifo(path)
    return path


def test_the_digest_of_an_artifact_is_that_of_its_bytes(logged: Logged, tmp_path: Path) -> None:
    log, sink, folder = logged
    weights = tmp_path / "model" / "weights.bin"
    weights.parent.mkdir()
    weights.write_bytes(b"abc")
    (tmp_path / "model" / "link").symlink_to("/etc/passwd")
    log.log_artifact(weights)
    log.log_artifact(weights, name="kept", keep=True)
    log.log_artifact(tmp_path / "model")
    abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    plain, kept, whole = items(sink)
    assert (plain.digest, plain.size_bytes, plain.file) == (abc, 3, "")
    assert (kept.digest, (folder / kept.file).read_bytes()) == (abc, b"abc")
    assert (whole.about["files"], whole.size_bytes, whole.name) == (1, 3, "model")


def test_the_whole_record_is_bounded(logged: Logged, monkeypatch: pytest.MonkeyPatch) -> None:
    log, sink, folder = logged
    monkeypatch.setattr(keeper, "MAX_ITEMS", 3)
    for number in range(5):
        log.log_text(f"n{number}", "x")
    assert len(items(sink)) == len(list(folder.iterdir())) == 3
    assert len(sink.said) == 2


def test_figures_of_libraries_are_files_of_their_own(logged: Logged) -> None:
    log, sink, folder = logged
    pyplot = pytest.importorskip("matplotlib.figure")
    figure = pyplot.Figure(figsize=(2, 2))
    figure.subplots().plot([1, 2])
    log.log_figure("matplotlib", figure)
    plotly = pytest.importorskip("plotly.graph_objects")
    for name in ("plotly", "again"):
        log.log_figure(name, plotly.Figure(plotly.Scatter(y=[1, 2])))
    if (altair := _imported("altair")) is not None:
        log.log_figure("altair", altair.Chart(altair.Data(values=[{"a": 1}])).mark_bar())
    if (bokeh := _imported("bokeh.plotting")) is not None:
        log.log_figure("bokeh", bokeh.figure(width=100, height=100))
    assert sink.said == []
    found = items(sink)
    assert [i.about["format"] for i in found][:3] == ["png", "plotly", "plotly"]
    assert (folder / found[0].file).read_bytes().startswith(b"\x89PNG")
    assert found[1].library == found[2].library
    assert len(list(folder.glob("library-*.js"))) == 1


def _imported(name: str) -> Any:
    try:
        return pytest.importorskip(name)
    except pytest.skip.Exception:
        return None
