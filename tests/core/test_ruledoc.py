from __future__ import annotations

import pytest

from mothtrap.core.ruledoc import parse_doc
from mothtrap.monitor.catalogue import rule_classes

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


@pytest.mark.parametrize("library", ["lightgbm", "catboost"])
def test_fixes_for_users_of_one_boosting_library_name_no_other(library: str) -> None:
    others = {"lightgbm", "catboost", "xgboost", "XGB", "DMatrix", "booster.predict"} - {library}
    for rule in rule_classes():
        doc = parse_doc(rule.__doc__ or "")
        if rule.code.startswith("TRE"):
            fixes = " ".join(doc.fixes_for(frozenset({library})) or doc.fixes)
            assert not [word for word in others if word in fixes], (rule.code, fixes)


def test_a_variant_is_for_users_of_each_library_that_it_names() -> None:
    doc = parse_doc(
        "Odd.\n\nWhat to do:\n    - All.\n    - LightGBM, CatBoost: Some.\n    - Keras: One."
    )
    assert doc.fixes == ("All.",)
    assert doc.fixes_for(frozenset({"catboost"})) == ("Some.",)
    assert doc.fixes_for(frozenset({"keras"})) == ("One.",)
    assert doc.fixes_for(frozenset({"xgboost"})) == ()
