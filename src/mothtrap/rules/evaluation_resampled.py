"""DAT526: an evaluation draws its rows with replacement."""

from __future__ import annotations

from collections import Counter

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.data import BatchesLoaded, LoaderBegan
from mothtrap.core.facts.evaluations import EvaluationPhase
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window


@rule(
    "DAT526",
    title="evaluation data drawn with replacement",
    needs=[Need(facts=(BatchesLoaded, LoaderBegan)), Need(facts=(EvaluationPhase,))],
)
def evaluation_resampled(
    window: Window,
    *,
    least: int = threshold(
        2, unit="evaluations", source="chosen by hand: a single one may be a trial"
    ),
) -> Found | None:
    """An evaluation draws its rows with replacement.

    What it detects:
        A loader for evaluation whose sampler draws as many rows as there are, but with replacement,
        such as the `WeightedRandomSampler` that balances the classes in training.

    Why it matters:
        In each evaluation, more than a third of the rows are not drawn, and others are drawn
        several times. Each evaluation draws new rows, so the metrics change although the model
        does not. A weighted sampler also changes the
        shares of the classes, so the metrics do not describe the real data.

    Fires:
        Warning when at least `least` passes over such a loader end in an evaluation in which a
        model makes at least as many forward passes as the loader has batches.

    Stays quiet:
        Loaders that are trained on. Samplers that draw more or fewer rows than there are, such as a
        random part of a large dataset. Several passes in one evaluation, as for a bootstrap.
        Evaluations in training mode.

    What to do:
        - PyTorch: Remove the sampler of the evaluation loader: `DataLoader(valid, batch_size=64)`
          draws each row once.
        - For a metric that gives all classes the same weight, average over the classes, e.g. the
          balanced accuracy.

    Example:
        valid_loader = DataLoader(valid, sampler=WeightedRandomSampler(weights, len(valid)))
        valid_loader = DataLoader(valid)

    References:
        pytorch-tabnet, issue 499: the training sampler is used for validation,
        https://github.com/dreamquark-ai/tabnet/issues/499
    """
    ended = [one for one in window.seen(BatchesLoaded) if one.ended]
    trained = {one.loader for one in ended if one.trained}
    if not trained:
        raise NotEnoughData("no pass over training data has ended")
    evaluated = [one for one in ended if one.loader not in trained]
    if not evaluated:
        raise NotApplicable("no evaluation uses a separate loader")
    again = Counter((one.loader, one.step) for one in evaluated)
    whole = _draw_as_many_as_there_are(window)
    forwards = _forwards(window)
    resampled: dict[str, list[BatchesLoaded]] = {}
    for one in evaluated:
        is_alone = again[one.loader, one.step] == 1
        if one.loader in whole and is_alone and 0 < one.batches <= forwards.get(one.step, 0):
            resampled.setdefault(one.loader, []).append(one)
    for loader, passes in resampled.items():
        if len(passes) >= least:
            began = whole[loader]
            return Found.of(
                passes,
                f"{loader} is used for evaluation and draws {began.samples} of {began.samples} "
                "rows with replacement: at least a third of the rows are left out of each "
                "evaluation, and others count several times",
                count=len(passes),
                evidence={
                    "rows": began.samples,
                    "batches": began.batches,
                    "sampler": began.sampler,
                },
                location=began.location,
            )
    return None


def _draw_as_many_as_there_are(window: Window) -> dict[str, LoaderBegan]:
    """Return the loaders that draw with replacement, and as many rows as their data have."""
    found = {}
    for one in window.seen(LoaderBegan):
        if one.sampler != "with_replacement" or not (one.samples and one.batch_size):
            continue
        whole, rest = divmod(one.samples, one.batch_size)
        if one.batches in (whole, whole + bool(rest)):  # with or without `drop_last`
            found[one.loader] = one
    return found


def _forwards(window: Window) -> dict[int, int]:
    """Return the largest number of forward passes of a model in the evaluation at each step."""
    found: dict[int, int] = {}
    for phase in window.seen(EvaluationPhase):
        if not phase.trains:
            found[phase.step] = max(found.get(phase.step, 0), phase.forwards)
    return found
