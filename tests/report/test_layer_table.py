"""The table of layers in its three forms."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from mothtrap.core.errors import MothtrapError
from mothtrap.core.facts.checks import LayerRow
from mothtrap.report.layer_table import as_svg, as_text, write

ROWS = (
    LayerRow(
        name="first", kind="Linear", output=(8, 4), parameters=28, trained=True, gradient="none"
    ),
    LayerRow(name="act<0>", kind="ReLU", output=(8, 4)),
    LayerRow(name="frozen", kind="Linear", parameters=10),
)


def test_the_text_has_a_line_for_each_layer_and_the_sums() -> None:
    head, first, _, frozen, sums = as_text(ROWS).splitlines()
    assert head.split()[:4] == ["stage", "layer", "type", "output"]
    assert first.split() == ["layer", "first", "Linear", "8", "x", "4", "28", "yes", "none"]
    assert "not called" in frozen
    assert sums == "3 layers, 38 parameters, 28 of them trained"


def test_the_json_file_has_an_object_for_each_layer(tmp_path: Path) -> None:
    write(ROWS, str(tmp_path / "layers.json"))
    found = json.loads((tmp_path / "layers.json").read_text())
    assert [row["name"] for row in found] == ["first", "act<0>", "frozen"]
    assert found[0]["output"] == [8, 4]


def test_the_picture_shows_each_layer_and_marks_one_without_a_gradient() -> None:
    root = ElementTree.fromstring(as_svg(ROWS))  # our own text
    texts = [node.text for node in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "act<0> (ReLU)" in texts
    assert any("no gradient" in (text or "") for text in texts)


def test_the_picture_begins_at_the_data_sets_and_ends_at_the_loss() -> None:
    stages = (
        LayerRow(part="data", name="train.py:7", kind="TensorDataset", output=(1437,)),
        LayerRow(part="input", name="0", kind="float32", output=(32, 64)),
        *ROWS,
        LayerRow(part="loss", name="train.py:20", kind="cross_entropy"),
    )
    root = ElementTree.fromstring(as_svg(stages))  # our own text
    texts = [node.text for node in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts[:3] == ["TensorDataset (train.py:7)", "1,437 rows", "input 0"]
    assert "cross_entropy" in texts
    assert as_text(stages).splitlines()[-1].startswith("3 layers, 38 parameters")


def test_another_ending_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MothtrapError, match=r"\.txt, \.json, \.svg"):
        write(ROWS, str(tmp_path / "layers.pdf"))
