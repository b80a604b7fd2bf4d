"""Transformations are advised only where a finding asks, and tested for their labels first."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier
from tests.behavior.asking import labels, people, subject_of, sure

from mothtrap.behavior.augmentation import augmentations
from mothtrap.behavior.probes.weak_segment import WeakSegment
from mothtrap.behavior.probing import run_probes
from mothtrap.behavior.transformations import MENUS, autoencoded, interpolated
from mothtrap.core.errors import NotApplicable

RNG = np.random.default_rng(0)


def asked(code: str) -> Any:
    """A finding by its code."""
    return SimpleNamespace(code=code)


def on_digits(code: str = "BEH201", **more: Any) -> Any:
    X, y = load_digits(return_X_y=True)
    X = X.reshape(-1, 8, 8) / 16

    def fitted(images: Any, targets: Any) -> Any:
        model = KNeighborsClassifier(3).fit(images.reshape(len(images), -1), targets)
        return lambda rows: model.predict_proba(rows.reshape(len(rows), -1))

    subject = subject_of(
        fitted(X[:1000], y[:1000]), X[1000:], y[1000:], train=(X[:1000], y[:1000]), refit=fitted
    )
    found = augmentations(subject, [asked(code)], **more)
    return {each.name: each for each in found}


def test_a_digit_on_its_head_is_another_one_and_a_turned_one_is_not() -> None:
    found = on_digits()
    assert not found["flip up and down"].is_safe
    assert not found["flip left and right"].is_safe
    assert found["flip up and down"].kept_by_model < 0.6
    assert "do not use it" in found["flip up and down"].advice
    assert found["flip up and down"].gain is None  # not even tried
    turned = found["rotate by 5 degrees"]
    assert turned.is_safe
    assert turned.gain is not None
    assert turned.error is not None
    assert turned.asked_by == ("BEH201",)
    assert "keeps the label and" in turned.advice


def test_a_finding_about_noise_asks_for_noise_only() -> None:
    assert list(on_digits("BEH106", trials=False)) == ["noise of 2 %"]


def test_without_a_finding_there_is_no_advice() -> None:
    X = people(400)
    subject = subject_of(sure, X, labels(X, 0.1))
    assert augmentations(subject, []) == ()
    assert augmentations(subject, [asked("BEH206")]) == ()


def test_a_kind_of_rows_asks_for_its_menu_without_a_finding() -> None:
    X = people(400)[["x0", "x1", "x2", "age"]]
    found = augmentations(subject_of(sure, X, labels(X, 0.1)), [], "table")
    assert [each.name for each in found] == ["noise of 5 %", "interpolation", "autoencoder"]
    assert found[0].asked_by == ()


def test_a_weak_segment_asks_for_more_rows_of_a_table() -> None:
    X = people(1200)[["x0", "x1", "x2", "age"]]
    y = labels(X, np.where(X.age > 60, 0.5, 0.05))
    subject = subject_of(sure, X, y)
    findings = run_probes(subject, [WeakSegment()], subject.table).findings
    assert findings
    found = {each.name: each for each in augmentations(subject, findings)}
    assert set(found) == {"noise of 5 %", "interpolation", "autoencoder"}
    assert found["noise of 5 %"].gain is None
    assert "pass train= and refit=" in found["noise of 5 %"].advice


def test_rows_of_no_known_kind_and_numbers_are_refused() -> None:
    X = people(300)
    with pytest.raises(NotApplicable, match="kind="):
        augmentations(subject_of(sure, X, labels(X, 0.1)), [asked("BEH201")])
    numbers = subject_of(lambda rows: rows.x0.to_numpy() * 1.5, X, X.x0.to_numpy())
    with pytest.raises(NotApplicable, match="predicts numbers"):
        augmentations(numbers, [asked("BEH201")])


def test_generated_rows_lie_between_rows_of_their_class() -> None:
    y = np.repeat([0, 1], 100)
    X = RNG.normal(size=(200, 3)) + 10 * y[:, None]
    for make in (interpolated, autoencoded):
        found = make(X, y, np.random.default_rng(0))
        assert found.shape == X.shape
        assert not np.array_equal(found, X)
        center = found[y == 1].mean(axis=0)
        assert np.abs(center - 10).max() < 0.5
        assert found[y == 0].max() < 5


def test_every_transformation_keeps_the_form_of_its_rows() -> None:
    rows = {
        "image": RNG.random((6, 3, 10, 12)).astype(np.float32),
        "table": RNG.normal(size=(20, 4)),
        "sound": RNG.normal(size=(6, 400)).astype(np.float32),
        "text": np.array(["The moth flies to the lamp at night"] * 6, object),
    }
    for kind, menu in MENUS.items():
        given = rows[kind]
        before = given.copy()
        for each in menu:
            found = each.make(given, np.arange(len(given)) % 2, np.random.default_rng(1))
            assert found.shape == given.shape, each.name
            assert not np.array_equal(found, given), each.name
            assert np.array_equal(given, before), each.name


def test_text_is_transformed_where_it_is_named() -> None:
    X = pd.DataFrame({"text": ["good moth tonight here", "bad moth tonight here"] * 100})
    y = np.array([1, 0] * 100)

    def reads(rows: Any) -> Any:
        one = rows.text.str.contains("good").to_numpy().astype(float) * 0.9 + 0.05
        return np.stack([1 - one, one], axis=1)

    subject = subject_of(reads, X, y)
    found = {a.name: a for a in augmentations(subject, [asked("BEH201")], "text")}
    assert found["lower case"].is_safe
    assert found["swap two words"].is_safe
    assert not found["leave out a word"].is_safe  # it is the word that counts
