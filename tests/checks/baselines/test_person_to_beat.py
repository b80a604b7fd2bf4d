"""Samples for a person."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from tests.checks.given import Given, table

from mothtrap.checks.baselines.person_to_beat import PersonToBeat
from mothtrap.checks.check import result_of
from mothtrap.checks.sample_texts import in_characters, picture_of
from mothtrap.checks.subject import Subject
from mothtrap.core.asked_samples import Asked
from mothtrap.core.facts.checks import CheckResult
from mothtrap.core.png import SIGNATURE


def taken(
    *sets: Given, asks: int = 5, task: Literal["classes", "numbers", ""] = "classes"
) -> CheckResult:
    """Take samples of data sets for a person."""
    return result_of(PersonToBeat(), Subject(datasets=sets, task=task, asks=asks), 0)


def asked(*sets: Given, **more: Any) -> Asked:
    [found] = taken(*sets, **more).asked
    return found


def test_samples_come_from_the_evaluation_data() -> None:
    x, y = table()
    held, labels = table(60, seed=1)
    found = asked(Given(x, y), Given(held, labels, "evaluation"))
    assert (found.role, found.metric, found.answers) == ("evaluation", "accuracy", ("0", "1", "2"))
    assert len(found.samples) == 5
    for sample in found.samples:
        assert sample.target == str(labels[sample.index])
        assert sample.text.startswith(f"input: {held[sample.index][0]:.4g}, ")
        assert not sample.picture


def test_classes_have_the_names_of_the_dataset() -> None:
    x, y = table(classes=2)
    found = asked(Given(x, y, classes=("cat", "dog")))
    assert found.answers == ("cat", "dog")
    assert {sample.target for sample in found.samples} <= {"cat", "dog"}


def test_numbers_are_told_with_their_range() -> None:
    x, _ = table()
    y = x[:, 0].astype(float)
    found = asked(Given(x, y), task="numbers")
    assert found.metric == "R2"
    assert found.answers == (f"{y.min():.4g}", f"{y.max():.4g}")
    assert float(found.samples[0].target) == y[found.samples[0].index]


def test_pictures_are_files_and_characters() -> None:
    images = np.zeros((60, 1, 16, 16), np.float32)
    images[:, :, :, 8:] = 1.0
    found = asked(Given(images, np.arange(60) % 3))
    assert found.samples[0].picture.startswith(SIGNATURE)
    assert found.samples[0].text.splitlines() == [" " * 16 + "@" * 16] * 16


def test_a_row_of_a_square_number_of_values_is_a_picture() -> None:
    image = picture_of([np.linspace(-1, 1, 64)])
    assert image is not None
    assert image.shape == (8, 8, 1)
    assert picture_of([np.zeros(10)]) is None


def test_a_large_picture_fits_into_a_terminal() -> None:
    lines = in_characters(np.full((300, 200, 3), 255, np.uint8)).splitlines()
    assert len(lines) <= 32
    assert max(map(len, lines)) <= 64


def test_without_the_option_nothing_is_taken() -> None:
    assert taken(Given(*table()), asks=0).state == "not_applicable"
