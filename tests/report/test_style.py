"""Abilities of a stream: color, width, characters."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mothtrap.core.findings import Severity
from mothtrap.core.texts import printable
from mothtrap.report.style import Style, count_of, ranges


class Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


def stream(*, terminal: bool, encoding: str = "utf-8") -> io.TextIOWrapper:
    return (Terminal if terminal else io.TextIOWrapper)(io.BytesIO(), encoding=encoding)


@pytest.mark.parametrize(
    ("terminal", "environ", "color"),
    [
        (True, {}, True),
        (False, {}, False),
        (True, {"NO_COLOR": "1"}, False),
        (True, {"NO_COLOR": ""}, True),
        (False, {"FORCE_COLOR": "1"}, True),
        (True, {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        (True, {"TERM": "dumb"}, False),
    ],
)
def test_color_is_for_terminals_unless_asked(
    terminal: bool, environ: dict[str, str], color: bool
) -> None:
    assert Style.of(stream(terminal=terminal), environ).color is color


@pytest.mark.parametrize(("encoding", "glyph"), [("utf-8", "✖"), ("ascii", "x"), ("latin-1", "x")])
def test_glyphs_fall_back_where_the_encoding_lacks_them(encoding: str, glyph: str) -> None:
    style = Style.of(stream(terminal=False, encoding=encoding), {})
    assert style.glyph(Severity.ERROR) == glyph
    style.safe("naïve → ✖").encode(encoding)


def test_a_stream_without_an_encoding_gets_plain_text() -> None:
    assert Style.of(io.StringIO(), {}) == Style()


def test_a_closed_stream_is_no_terminal() -> None:
    closed = stream(terminal=False)
    closed.close()
    assert Style.of(closed, {}).color is False


def test_paint_adds_color_only_where_it_is_shown() -> None:
    assert Style().paint("a", "bold red") == "a"
    assert Style(color=True).paint("a", "bold red") == "\x1b[1;31ma\x1b[0m"


@given(st.text())
def test_printable_text_cannot_steer_a_terminal(text: str) -> None:
    shown = printable(text)
    assert not any(ord(c) < 32 or 127 <= ord(c) < 160 for c in shown)
    assert "‮" not in shown
    shown.encode("utf-8")


def test_ordinary_text_is_left_as_it_is() -> None:
    assert printable("blocks.0.attn.q größer ✖") == "blocks.0.attn.q größer ✖"


def test_numbers_read_well() -> None:
    assert count_of(1, "step") == "1 step"
    assert count_of(4812, "step") == "4,812 steps"
    assert ranges((3, 0, 1)) == "0-1, 3"
    assert ranges(()) == ""
