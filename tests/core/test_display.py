from __future__ import annotations

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mothtrap.core import display
from mothtrap.core.findings import Finding, Severity

HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "'; DROP TABLE runs; --",
    "javascript:alert(1)",
    "&lt;b&gt;",
    "../../etc/passwd",
    "name\x00with\x1b[31mcontrol\u202eturned",
    "\ud800 alone",
    "x" * 10_000,
]


class Tags(HTMLParser):
    """Collects the tags that a browser would parse."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


def seen(html: str) -> Tags:
    tags = Tags()
    tags.feed(html)
    tags.close()
    html.encode()
    return tags


PLAIN_TAGS = {"h4", "p", "table", "thead", "tbody", "tr", "th", "td"}


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_text_stays_a_text(text: str) -> None:
    html = display.heading(text) + display.pairs({text: text}) + display.grid([text], [[text]])
    found = seen(html)
    assert set(found.tags) <= PLAIN_TAGS
    assert found.attributes == []
    assert len(html) < 5 * 6 * display.MAX_CHARS


@given(st.text(st.characters(), max_size=400))
def test_any_text_stays_a_text(text: str) -> None:
    found = seen(display.pairs({text: text}))
    assert found.tags == ["table", "tr", "th", "td"]
    assert found.attributes == []


def test_texts_are_shown_as_they_are() -> None:
    assert seen(display.heading("a < b & 'c'")).text == "a < b & 'c'"
    assert display.safe("\x1b[0m\u202e") == "\\x1b[0m\\u202e"


def test_the_check_sees_a_script() -> None:
    assert "script" in seen("<script>alert(1)</script>").tags


def test_long_tables_are_cut_and_say_so() -> None:
    html = display.grid(["n"], [[n] for n in range(display.MAX_ROWS + 3)])
    assert seen(html).tags.count("td") == display.MAX_ROWS
    assert "and 3 more" in html


@pytest.mark.parametrize("text", HOSTILE)
def test_a_finding_shows_itself_in_a_notebook(text: str) -> None:
    finding = Finding(
        code="GRD101",
        name="exploding_gradient",
        severity=Severity.ERROR,
        step=7,
        detected_step=9,
        message=text,
        layers=(text,),
        evidence={text: text, "ratio": 4.5},
        fixes=(text,),
        location=text,
    )
    found = seen(finding._repr_html_())
    assert set(found.tags) <= PLAIN_TAGS
    assert found.attributes == []
    assert "exploding_gradient" in found.text
    assert "4.5" in found.text
