"""Facts about losses that compare rows with each other."""

from __future__ import annotations

from mothtrap.core.fact import Fact


class SimilarityLoss(Fact, frozen=True, kw_only=True, tag=True):
    """A loss consists only of similarities of normalized vectors.

    In `both` of `looks` inspected backward passes of a line, both sides of a similarity had a
    gradient and shared weights that were updated. In `one` of them this was true of no similarity.
    `location` is the line of the loss.
    """

    looks: int
    both: int = 0
    one: int = 0
    location: str | None = None


class MarginLoss(Fact, frozen=True, kw_only=True, tag=True):
    """Sampled values of a loss that separates distances by a margin.

    `loss` is its function, or the class of its module, `calls` the number of its calls so far, and
    `values` are the values sampled since the previous report. `level` is the mean of the values
    that the loss would have if all distances of a batch were equal; None = the margin. `equal` is
    the number of sampled calls in which all embeddings were equal. `location` is the line of the
    latest call.
    """

    loss: str
    margin: float
    calls: int
    values: tuple[float, ...]
    level: float | None = None
    equal: int = 0
    location: str | None = None


class DistancesAsScores(Fact, frozen=True, kw_only=True, tag=True):
    """A class loss takes distances as scores, so it makes the right distance larger.

    It did so in `found` of `looks` inspected backward passes of a line, with `choices` distances
    for each row. `location` is the line of the loss.
    """

    looks: int
    found: int
    choices: int
    location: str | None = None


class OneSidedPairs(Fact, frozen=True, kw_only=True, tag=True):
    """A loss of log-sigmoids only raises the scores of pairs, or only lowers them.

    It did so in each of `looks` inspected backward passes of a line. `terms` is the number of its
    log-sigmoids, `together`: it raises the scores. `location` is the line of the loss.
    """

    looks: int
    terms: int
    together: bool
    location: str | None = None


class OwnRowCompetes(Fact, frozen=True, kw_only=True, tag=True):
    """A contrastive loss compares each row with all rows, including the row itself.

    In `found` of `looks` inspected backward passes of a line, the similarity of each row with
    itself, the largest of all, was among the wrong partners. `rows` is the number of rows of the
    latest batch. `location` is the line of the loss.
    """

    looks: int
    found: int
    rows: int
    location: str | None = None


class ScoresSummed(Fact, frozen=True, kw_only=True, tag=True):
    """A loss of log-sigmoids sums the scores of several pairs before one of the log-sigmoids.

    It did so in `found` of `looks` inspected backward passes of a line, in which another
    log-sigmoid got the scores of single pairs. `scores` is the number of summed scores. `location`
    is the line of the loss.
    """

    looks: int
    found: int
    scores: int
    location: str | None = None
