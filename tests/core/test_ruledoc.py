from __future__ import annotations

import pytest

from mothtrap.core.ruledoc import USERS, parse_doc
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


OTHERS = {
    "lightgbm": ("catboost", "xgboost", "XGB", "DMatrix", "booster.predict"),
    "catboost": ("lightgbm", "xgboost", "XGB", "DMatrix", "booster.predict"),
    "sklearn": ("lightgbm", "catboost", "xgboost", "XGB", "DMatrix"),
    "keras": ("torch", "nn.", "backward(", "optax", "jnp.", "clip_grad_norm_", "scheduler.step"),
    "jax": ("torch", "backward(", "keras", "`nn.", "clip_grad_norm_", "scheduler.step", "detach("),
}
"""Words of other libraries, by adapter."""


@pytest.mark.parametrize("adapter", OTHERS)
def test_fixes_for_the_users_of_one_library_name_no_other(adapter: str) -> None:
    of_trees = adapter in ("lightgbm", "catboost", "sklearn")
    for rule in rule_classes():
        doc = parse_doc(rule.__doc__ or "")
        words = {word for word, names in USERS.items() if adapter in names}
        has_own = any(not words.isdisjoint(of) for of, _ in doc.bullets())
        if has_own and of_trees == rule.code.startswith("TRE"):
            fixes = " ".join(doc.fixes_for({adapter}))
            assert not [word for word in OTHERS[adapter] if word in fixes], (rule.code, fixes)


def test_a_bullet_that_begins_with_names_is_for_users_of_these_alone() -> None:
    bullets = ("All.", "PyTorch: Torch.", "LightGBM, CatBoost: Some.", "Keras: One.", "JAX: Two.")
    doc = parse_doc("Odd.\n\nWhat to do:\n" + "\n".join(f"    - {one}" for one in bullets))
    assert doc.fixes == ("All.", "Torch.")
    assert doc.fixes_for({"catboost"}) == ("All.", "Some.")
    assert doc.fixes_for({"keras", "jax"}) == ("All.", "One.")
    assert doc.fixes_for({"xgboost"}) == ("All.",)


def test_without_a_bullet_for_its_users_a_rule_gives_the_usual_ones() -> None:
    doc = parse_doc("Odd.\n\nWhat to do:\n    - PyTorch: Torch.\n    - Keras: One.")
    assert doc.fixes_for({"mxnet"}) == ("Torch.",)
