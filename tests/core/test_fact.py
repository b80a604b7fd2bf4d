"""Facts are found by their tags; an unknown one is kept as it was written."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.plugins import install

from mothtrap.core import fact
from mothtrap.core.fact import Fact, UnknownFact
from mothtrap.core.facts.captures import Blind
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.facts.modules import HalfPrecision

TREES = """
from mothtrap.core.fact import Fact

class TreeGrown(Fact, frozen=True, kw_only=True, tag=True):
    depth: int
"""


@pytest.fixture(autouse=True)
def _search_again() -> Iterator[None]:
    fact._installed.cache_clear()
    yield
    fact._installed.cache_clear()


@pytest.mark.parametrize(
    "known",
    [
        Blind(step=3, what="x", reason="y"),
        LossCall(step=0, operation="nll", chain=("softmax",), label_counts=(1, 2)),
    ],
)
def test_a_fact_comes_back(known: Fact) -> None:
    assert fact.decode(fact.tag_of(known), fact.to_json(known)) == known


def test_numbers_that_are_not_finite_come_back() -> None:
    half = HalfPrecision(
        step=1,
        tensor="weight:a",
        module="a",
        dtype="float16",
        elements=3,
        largest=math.inf,
        limit=1.0,
        small=math.nan,
        zero=0.0,
    )
    found = fact.decode("HalfPrecision", fact.to_json(half))
    assert isinstance(found, HalfPrecision)
    assert found.largest == math.inf
    assert math.isnan(found.small)


def test_a_fact_that_is_not_installed_is_kept_as_it_was_written() -> None:
    text = '{"type":"TreeGrown","step":4,"mode":"train","depth":7,"gains":["NaN",1.5]}'
    found = fact.decode("TreeGrown", text)
    fields = {"depth": 7, "gains": ["NaN", 1.5]}
    assert found == UnknownFact(step=4, tag="TreeGrown", fields=fields)
    assert fact.tag_of(found) == "TreeGrown"
    assert json.loads(fact.to_json(found)) == json.loads(text)


def test_a_fact_without_a_step_is_damage() -> None:
    with pytest.raises(msgspec.DecodeError):
        fact.decode("TreeGrown", '{"type":"TreeGrown","depth":7}')
    with pytest.raises(msgspec.DecodeError):
        fact.decode("Blind", '{"type":"Blind","step":3}')


def test_a_fact_of_another_distribution_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, {"mothtrap.core.facts": {"groves": TREES}})
    found = fact.decode("TreeGrown", '{"type":"TreeGrown","step":4,"depth":7}')
    assert type(found).__name__ == "TreeGrown"
    assert found.depth == 7  # type: ignore[attr-defined]


def test_a_fact_of_another_distribution_cannot_replace_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = TREES.replace("TreeGrown", "Blind")
    install(tmp_path, monkeypatch, {"mothtrap.core.facts": {"groves": source}})
    assert fact.fact_types()["Blind"] is Blind
    (error,) = fact.unusable()
    assert "their-plugins 1.2" in str(error)
    assert "the fact Blind is already installed" in str(error)


def test_every_fact_of_ours_is_stored_under_the_name_of_its_class() -> None:
    kinds = fact.fact_types()
    assert len(kinds) >= 56
    assert all(tag == kind.__name__ for tag, kind in kinds.items())
