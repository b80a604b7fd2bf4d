"""Needs: required ones, alternatives, and the facts that are detected."""

from __future__ import annotations

import ast
from pathlib import Path

import mothtrap
from mothtrap.core.facts.layers import DataTaken
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.facts.optimizers import ClippedLate
from mothtrap.core.needs import Need, any_of, facts_of, required
from mothtrap.core.standing_needs import STANDING_NEEDS

SOURCE = Path(mothtrap.__file__).parent
NORMS = Need(kinds=("gradient",), statistics=("l2",))
CALLS = Need(facts=(LossCall,), scalars=("loss",))
LATE = Need(facts=(ClippedLate,), each_step=True, optional=True)


def test_optional_needs_are_not_required() -> None:
    assert required((NORMS, CALLS, LATE)) == [(NORMS,), (CALLS,)]


def test_of_alternatives_one_is_required() -> None:
    data = Need(facts=(DataTaken,))
    first, second = any_of(NORMS, data)
    assert required((CALLS, first, second)) == [(CALLS,), (first, second)]
    assert first.alternative == "l2 of gradient or DataTaken"


def test_equal_needs_are_required_one_by_one() -> None:
    assert required((NORMS, NORMS)) == [(NORMS,), (NORMS,)]


def test_facts_are_the_union_of_all_needs() -> None:
    needs = (NORMS, CALLS, LATE)
    assert facts_of(needs) == {LossCall, ClippedLate}
    assert facts_of(needs, each_step=True) == {ClippedLate}


def test_readers_of_a_run_get_their_facts_whatever_rules_are_in_force() -> None:
    """Every fact that modules above the rules import is among the standing needs."""
    standing = {fact.__name__ for fact in facts_of(STANDING_NEEDS)}
    parts_of_facts = {"CollectiveCall", "InputState", "LayerRow", "SampleBatch"}
    readers = ("reader", "report", "session", "cli", "exports", "snapshot", "store", "web")
    read = {
        alias.name
        for reader in readers
        for path in (SOURCE / reader).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom)
        and (node.module or "").startswith("mothtrap.core.facts")
        for alias in node.names
    }
    assert "WorkerEnded" in read
    assert read <= standing | parts_of_facts
