"""Charts of a run are specifications that any viewer can render."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.stored_run import store_run
from tests.reader.runs import evaluation, info, write_worker

import mothtrap
from mothtrap.core.errors import UnknownNameError
from mothtrap.core.records import Scalar
from mothtrap.store import layout


def test_losses_and_comparisons_hold_their_points(tmp_path: Path) -> None:
    store_run(tmp_path / "a", steps=2000)
    store_run(tmp_path / "b", steps=5, first_loss=float("nan"))
    first, second = (mothtrap.open_run(tmp_path / name) for name in "ab")
    chart = first.plot.loss()
    assert json.loads(json.dumps(chart)) == chart
    points = chart["layer"][0]["data"]["values"]
    assert len(points) <= 600
    assert (points[0]["value"], points[-1]["value"]) == (1.0, 1 / 2000)
    compared = first.plot.compare(second)["layer"][0]["data"]["values"]
    assert {point["series"] for point in compared} == {"a train/loss", "b train/loss"}
    assert [point["value"] for point in compared if point["series"] == "b train/loss"] == [None] * 5
    with pytest.raises(UnknownNameError, match="neither a nor b has a scalar 'x'"):
        first.plot.compare(second, "x")
    assert first.plot.layers()["layer"][0]["data"]["values"] == []
    store_run(tmp_path / "other" / "a", steps=5)
    namesake = mothtrap.open_run(tmp_path / "other" / "a")
    compared = first.plot.compare(namesake)["layer"][0]["data"]["values"]
    assert {point["series"] for point in compared} == {"a train/loss", "a (other) train/loss"}


def test_batches_of_an_evaluation_are_one_point(tmp_path: Path) -> None:
    attempt = layout.create_run(tmp_path / "x", info())
    batches = [
        evaluation(step, 2 * step + half, scalars=(Scalar("loss", "main", 1.0 + half),))
        for step in (5, 9)
        for half in (0, 1)
    ]
    write_worker(attempt, *batches)
    chart = mothtrap.open_run(tmp_path / "x").plot.loss()
    points = chart["layer"][0]["data"]["values"]
    assert [(point["step"], point["value"]) for point in points] == [(5, 1.5), (9, 1.5)]


def test_an_axis_is_logarithmic_only_over_powers_of_ten_and_ends_with_the_run(
    tmp_path: Path,
) -> None:
    store_run(tmp_path / "long", steps=2000)
    store_run(tmp_path / "short", steps=5)
    for name, kind in (("long", "log"), ("short", None)):
        encoding = mothtrap.open_run(tmp_path / name).plot.loss()["layer"][0]["layer"][0][
            "encoding"
        ]
        assert encoding["y"]["scale"].get("type") == kind
        assert encoding["x"]["scale"]["nice"] is False


def test_a_legend_shows_whole_names_in_the_colors_of_the_page(tmp_path: Path) -> None:
    store_run(tmp_path / "a", steps=5)
    store_run(tmp_path / "b", steps=5)
    first, second = (mothtrap.open_run(tmp_path / name) for name in "ab")
    color = first.plot.compare(second)["layer"][0]["layer"][0]["encoding"]["color"]
    assert color["legend"]["labelLimit"] == 0
    style = (Path(mothtrap.__file__).parent / "web/static/style.css").read_text()
    assert all(f"{shade};" in style for shade in color["scale"]["range"])
