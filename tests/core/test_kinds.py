"""Kinds of tensors: built-in ones in order, those of plug-ins, and those not installed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.plugins import install

from mothtrap.core import kinds
from mothtrap.core.collections import Collection, complaint, matcher
from mothtrap.core.tensors import TensorInfo

THEIRS = """
from mothtrap.core.kinds import Kind

KINDS = (Kind(name="codebook", plural="codebooks", priority="weights", merges=True, of="state"),)
"""


@pytest.fixture(autouse=True)
def _search_again() -> Iterator[None]:
    cached = (
        *(kinds.kinds, kinds.names, kinds.plurals, kinds.usual, kinds.uncostly),
        kinds.made_by,
    )
    for function in cached:
        function.cache_clear()
    yield
    for function in cached:
        function.cache_clear()


def test_names_and_plurals_are_unique_and_a_weight_comes_before_its_gradient() -> None:
    assert len(kinds.plurals()) == len(kinds.names()) >= 16
    assert kinds.position("weight") < kinds.position("gradient") < kinds.position("leaf")


def test_kinds_say_where_they_come_from() -> None:
    assert kinds.made_by("forward") == {"activation", "input", "output"}
    assert kinds.made_by("model") == {
        *("leaf", "importance", "tree"),
        *("prediction", "shap", "average_shap"),
    }
    assert kinds.usual() == ("weight", "bias", "gradient", "activation")
    assert {*kinds.names()} - {*kinds.uncostly()} == {
        *("importance", "tree"),
        *("prediction", "shap", "average_shap"),
    }


def test_a_kind_of_another_distribution_can_be_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, {"mothtrap.core.kinds": {"codebooks": THEIRS}})
    assert kinds.names()[-1] == "codebook"
    assert kinds.kind_of("codebook").merges
    collection = Collection(tensors=("codebooks",))
    assert complaint("mine", collection) is None
    assert matcher("mine", collection)(TensorInfo(kind="codebook", name="vq"))


def test_a_distribution_that_cannot_be_imported_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = kinds.names()
    kinds.kinds.cache_clear()
    install(tmp_path, monkeypatch, {"mothtrap.core.kinds": {"broken": "import no_such_module\n"}})
    assert tuple(kinds.kinds()) == before


def test_a_kind_that_is_not_installed_has_the_defaults() -> None:
    strange = kinds.kind_of("grove")
    assert (strange.plural, strange.merges, strange.priority) == ("groves", False, "activations")
    assert kinds.position("grove") == len(kinds.names())
