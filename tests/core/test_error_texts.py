"""One line for an exception of other code, and a limited traceback without secrets."""

from __future__ import annotations

import pytest

from mothtrap.core.error_texts import (
    MAX_LINE,
    MAX_TRACEBACK,
    in_one_line,
    traceback_of,
    without_secrets,
)


def raised(text: str) -> Exception:
    try:
        raise ValueError(text)
    except ValueError as err:
        return err


def test_only_the_first_line_of_a_text_is_said() -> None:
    assert in_one_line(raised("no kernel\n\nCPU: registered at ...\n" * 900)) == (
        "ValueError: no kernel"
    )
    assert in_one_line(KeyboardInterrupt()) == "KeyboardInterrupt"
    assert in_one_line(raised("\n  indented\n")) == "ValueError: indented"


def test_notes_of_one_line_are_said_too_and_a_long_line_is_cut() -> None:
    error = raised("disk full")
    error.add_note("3 steps are lost")
    error.add_note("a long\nexplanation")
    assert in_one_line(error) == "ValueError: disk full; 3 steps are lost"
    assert len(in_one_line(raised("x" * 5000))) == MAX_LINE


def test_a_long_traceback_keeps_its_beginning_and_its_end() -> None:
    text = traceback_of(raised("begin " + "x" * 200_000 + " end"))
    assert len(text) == MAX_TRACEBACK
    assert text.startswith("Traceback (most recent call last)")
    assert "begin" in text
    assert text.endswith(" end\n")
    assert "characters omitted" in text


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("api_key=abc123 rest", "api_key=*** rest"),
        ("{'password': 'hunter2', 'user': 'me'}", "{'password': '***', 'user': 'me'}"),
        ("Authorization: Bearer eyJhb.x-y", "Authorization: Bearer ***"),
        ("GET https://me:pw@host/x?X-Amz-Signature=1f&b=2", None),
        ("KeyError: 'layer'", "KeyError: 'layer'"),
    ],
)
def test_what_looks_like_a_secret_is_masked(text: str, masked: str | None) -> None:
    expected = masked or "GET https://***@host/x?X-Amz-Signature=***&b=2"
    assert without_secrets(text) == expected


def test_a_traceback_holds_no_secret() -> None:
    assert "hunter2" not in traceback_of(raised("login failed: password=hunter2"))
