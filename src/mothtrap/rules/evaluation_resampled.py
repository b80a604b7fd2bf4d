"""DAT526: an evaluation draws its rows with replacement."""

from __future__ import annotations

from collections import Counter

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.data import BatchesLoaded, LoaderBegan
from mothtrap.core.facts.evaluations import EvaluationPhase
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window


@frozen
class EvaluationResampled(Rule):
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
        - Remove the sampler of the evaluation loader: `DataLoader(valid, batch_size=64)` draws each
          row once.
        - For a metric that gives all classes the same weight, average over the classes, e.g. the
          balanced accuracy.

    Example:
        valid_loader = DataLoader(valid, sampler=WeightedRandomSampler(weights, len(valid)))
        valid_loader = DataLoader(valid)

    References:
        pytorch-tabnet, issue 499: the training sampler is used for validation,
        https://github.com/dreamquark-ai/tabnet/issues/499
    """

    code = "DAT526"
    title = "evaluation data drawn with replacement"
    severity = Severity.WARNING
    needs = (Need(facts=(BatchesLoaded, LoaderBegan)), Need(facts=(EvaluationPhase,)))

    least: int = threshold(
        2, unit="evaluations", source="chosen by hand: a single one may be a trial"
    )

    def check(self, window: Window) -> list[Finding]:
        """Check the loaders whose passes ended in an evaluation."""
        ended = [one for one in window.seen(BatchesLoaded) if one.ended]
        trained = {one.loader for one in ended if one.trained}
        if not trained:
            raise NotEnoughData("no pass over training data has ended")
        if ended and all(one.loader in trained for one in ended):
            raise NotApplicable("no evaluation uses a separate loader")
        evaluated = [one for one in ended if one.loader not in trained]
        again = Counter((one.loader, one.step) for one in evaluated)
        whole = _draw_as_many_as_there_are(window)
        forwards = _forwards(window)
        resampled = [
            one
            for one in evaluated
            if one.loader in whole
            and again[one.loader, one.step] == 1
            and 0 < one.batches <= forwards.get(one.step, 0)
        ]
        count = Counter(one.loader for one in resampled)
        return [
            self._finding(window, [one for one in resampled if one.loader == loader], whole[loader])
            for loader in count
            if count[loader] >= self.least
        ][:1]

    def _finding(self, window: Window, passes: list[BatchesLoaded], began: LoaderBegan) -> Finding:
        return self.finding(
            window,
            step=passes[0].step,
            last_step=passes[-1].step,
            count=len(passes),
            message=(
                f"{began.loader} is used for evaluation and draws {began.samples} of "
                f"{began.samples} rows with replacement: at least a third of the rows are left "
                "out of each evaluation, and others count several times"
            ),
            evidence={"rows": began.samples, "batches": began.batches, "sampler": began.sampler},
            location=began.location,
        )


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
