"""Samples that a person is asked to predict, and the score of the answers."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from mothtrap.core.jsonable import UnixTime

Metric = Literal["accuracy", "R2"]


class AskedSample(msgspec.Struct, frozen=True, kw_only=True):
    """A sample without its label.

    Attributes:
        index: index in its dataset.
        text: lines for a terminal: values, words, or a drawing in characters.
        picture: PNG file; empty for a sample that is not a picture.
        target: correct answer: a class, or a number.
    """

    index: int
    text: str
    picture: bytes = b""
    target: str


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """Samples of a dataset, and the possible answers.

    Attributes:
        dataset: name of the dataset.
        role: purpose of its rows: `train` or `evaluation`.
        metric: `accuracy` for classes, `R2` for numbers.
        answers: names of the classes, in the order of their numbers; for numbers, the smallest and
            the largest value in the dataset.
        samples: samples in random order.
    """

    dataset: str
    role: str
    metric: Metric
    answers: tuple[str, ...]
    samples: tuple[AskedSample, ...]


class PersonScore(msgspec.Struct, frozen=True, kw_only=True):
    """Score of a person's answers.

    Attributes:
        metric: `accuracy` or `R2`.
        score: score of the answers.
        samples: number of answered samples.
        at_s: Unix time of the last answer, in seconds.
    """

    metric: Metric
    score: float
    samples: Annotated[int, msgspec.Meta(ge=1)]
    at_s: UnixTime
