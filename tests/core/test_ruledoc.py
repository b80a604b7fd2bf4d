from __future__ import annotations

from mothtrap.core.ruledoc import parse_doc

TEXT = """The loss is odd.

    What it detects:
        An odd loss.

    Why it matters:
        Odd losses
        mislead.

    What to do:
        - Make it even,
          by adding one.
        - Or leave it.

    Example:
        if odd:
            fix()
"""


def test_takes_a_docstring_apart_at_its_headings() -> None:
    doc = parse_doc(TEXT)
    assert doc.summary == "The loss is odd."
    assert list(doc.sections) == ["What it detects", "Why it matters", "What to do", "Example"]
    assert doc.sections["Example"] == "if odd:\n    fix()"


def test_joins_lines_of_why_and_of_each_fix() -> None:
    doc = parse_doc(TEXT)
    assert doc.why == "Odd losses mislead."
    assert doc.fixes == ("Make it even, by adding one.", "Or leave it.")


def test_a_docstring_without_headings_has_a_summary_only() -> None:
    doc = parse_doc("Something: else.")
    assert (doc.summary, doc.sections, doc.fixes, doc.why) == ("Something: else.", {}, (), "")
