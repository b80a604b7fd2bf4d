"""A finding in one line while the job trains."""

from __future__ import annotations

from tests.report.faulty_run import exploding

from mothtrap.report.live_line import live_line
from mothtrap.report.style import Style

GLYPHS = Style(glyphs=True)


def test_a_live_finding_is_one_line_with_step_layer_and_place() -> None:
    assert live_line(exploding(), GLYPHS) == (
        "mothtrap: ✖ GRD101 exploding gradient at step 71 in blocks.1.attn.q, blocks.1.attn.k: "
        "gradient norm 3.1e+04 is 410x its median over 500 steps (limit 100x) (model.py:88)"
    )


def test_a_live_line_stays_one_line_whatever_the_names_hold() -> None:
    line = live_line(exploding(layers=("a\nb\x1b[31m",), message="x\ry"))
    assert line.isprintable()
    assert line.isascii()


def test_an_onset_that_is_known_as_a_range_stays_a_range() -> None:
    assert " at step 71 to 90 in " in live_line(exploding(evidence={"onset_at_latest": 90}))


def test_a_layer_without_a_name_is_called_a_layer() -> None:
    assert " in layer 2:" in live_line(exploding(layers=("2",)))
    assert " in layers 0, 2, 4 and 1 more:" in live_line(exploding(layers=("0", "2", "4", "6")))


def test_many_layers_are_counted() -> None:
    line = live_line(exploding(layers=tuple("abcdef")))
    assert "in a, b, c and 3 more:" in line
