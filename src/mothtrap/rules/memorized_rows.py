"""DAT525: the model memorizes rows from the start, and learns nothing that helps other rows."""

from __future__ import annotations

import numpy as np

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.data import BatchesLoaded, LoaderBegan
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.proof import Proof
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Floats, Series, Window
from mothtrap.rules._loss_calls import class_calls, entropy, label_counts
from mothtrap.rules._losses import Judgment, finite_part, has_players, judge_series


@frozen
class MemorizedRows(Rule):
    """The model memorizes rows from the start, and learns nothing that helps other rows.

    What it detects:
        A class loss that is no better than guessing in the first pass over the data, and that later
        falls from pass to pass, but rises within each pass.

    Why it matters:
        In the first pass every row is new, so its loss is an evaluation. In later passes, the loss
        of a row depends on how long ago the model saw the row: if training on other rows does not
        help, the loss rises until the pass ends. Usually the labels do not belong to their
        inputs: inputs or labels were shuffled, shifted, sorted, or joined separately.

    Fires:
        Guessing means predicting the class frequencies. Warning when the loss in the second half of
        the first pass is at least the loss from guessing, and at least `least_passes` passes follow
        in which the loss is above `half` of the loss from guessing, falls by `fallen_share` of it,
        and rises within the passes. The rise of fitted lines must be `risen_share` of the fall
        and `deviations` standard errors.

    Stays quiet:
        If the first pass brings the loss below guessing, even if the model memorizes rows later.
        For a loss above `most` times the loss from guessing, which is on another scale. For loaders
        that do not shuffle, and passes of fewer than `batches` steps. For competing losses (GAN),
        sums of several terms, and losses that weight classes.

    What to do:
        - Look at some rows: does each label match its input? Shuffle both with the same
          permutation, and check how they are joined.
        - Hold out some data for evaluation: the evaluation loss shows immediately whether the model
          learns anything.

    Example:
        x, y = x[torch.randperm(n)], y[torch.randperm(n)]    # two different orders
        order = torch.randperm(n); x, y = x[order], y[order]

    References:
        Zhang, Bengio, Hardt, Recht, Vinyals 2017, Understanding deep learning requires
        rethinking generalization, https://arxiv.org/abs/1611.03530
    """

    code = "DAT525"
    title = "rows are memorized from the start"
    needs = (
        Need(facts=(LoaderBegan, BatchesLoaded)),
        Need(facts=(LossCall,), scalars=("loss",)),
    )
    proof = Proof(title="Loss of each step", scalars=("loss",))
    explains = ("loss_not_decreasing", "overfit", "overtraining", "stuck_at_chance")

    least_passes: int = threshold(5, unit="passes over the data", source="chosen by hand")
    batches: int = threshold(16, unit="steps in a pass", source="chosen by hand")
    most: float = threshold(
        1.5,
        unit="of the loss from guessing",
        source="chosen by hand: above it, the loss is on another scale",
    )
    half: float = threshold(
        0.5,
        unit="of the loss from guessing",
        source="chosen by hand: later, every model memorizes rows",
    )
    fallen_share: float = threshold(0.03, unit="of the loss from guessing", source="chosen by hand")
    risen_share: float = threshold(
        0.3,
        unit="of the fall from pass to pass",
        source="measured on 6 small problems: 0.8 to 3.7 with shuffled labels, and below -0.4 for "
        "models that learn",
    )
    deviations: float = threshold(3.0, unit="standard errors", source="chosen by hand")

    def check(self, window: Window) -> list[Finding]:
        """Check the loss of the only loader that is trained on."""
        if has_players(window):
            raise NotApplicable("several losses compete with each other")
        calls = class_calls(window)
        begin, length = self._pass(window)

        def judge(series: Series) -> Judgment | None:
            guess = _guessing([call for call in calls if call.series == series.of])
            loss_KP = _in_passes(series, begin, length)
            if len(loss_KP) <= self.least_passes:
                raise NotEnoughData(f"needs {self.least_passes} whole passes over the data")
            return self._judge(series, loss_KP, guess, begin)

        return judge_series(self, window, judge)

    def _pass(self, window: Window) -> tuple[int, int]:
        """Return the step at which the first pass over the data began, and its steps.

        Raises:
            NotApplicable: rows are not drawn in passes in random order, with a step for each batch.
            NotEnoughData: no pass has ended.
        """
        ended = [one for one in window.seen(BatchesLoaded) if one.ended and one.trained]
        began = [one for one in window.seen(LoaderBegan) if one.batches]
        if not ended:
            raise NotEnoughData("no pass over the training data has ended")
        loader = next((one for one in began if one.loader == ended[0].loader), None)
        # A script may create an equal loader for each pass.
        trained = {one.loader for one in ended}
        kinds = {(one.location, one.batches) for one in began if one.loader in trained}
        if len(kinds) != 1 or loader is None or not loader.batches:
            raise NotApplicable(
                "training uses several loaders, or the length of a loader is unknown"
            )
        if loader.sampler != "shuffled" or loader.batches < self.batches:
            raise NotApplicable("the loader does not shuffle, or its passes are short")
        if abs(ended[0].step - loader.step - loader.batches) > 1:
            raise NotApplicable("steps and batches do not correspond")
        return loader.step, loader.batches

    def _judge(self, series: Series, loss_KP: Floats, guess: float, begin: int) -> Judgment | None:
        length = loss_KP.shape[1]
        first = float(loss_KP[0, length // 2 :].mean())
        low_K = np.flatnonzero(loss_KP.mean(axis=1) < self.half * guess)
        loss_KP = loss_KP[1 : low_K[0] if len(low_K) else None]
        if not guess <= first <= self.most * guess or len(loss_KP) < self.least_passes:
            return None
        mean_K = loss_KP.mean(axis=1)
        risen, error = _rise_within(loss_KP)
        fallen = float(mean_K[0] - mean_K[-1])
        needed = max(self.risen_share * fallen, self.deviations * error)
        if fallen < self.fallen_share * guess or risen < needed:
            return None
        return Judgment(
            severity=Severity.WARNING,
            step=begin,
            last_step=int(series.steps_S[-1]),
            count=len(loss_KP) * length,
            message=(
                f"in the first pass over the data the loss was {first:.4g}, no better than "
                f"guessing ({guess:.4g}). In the next {len(loss_KP)} passes it fell from "
                f"{mean_K[0]:.4g} to {mean_K[-1]:.4g}, but rose within each pass by "
                f"{risen / len(loss_KP):.2g} on average: the model memorizes rows, and what it "
                "learns does not help the other rows"
            ),
            evidence={
                "first": first,
                "guessing": guess,
                "fallen": fallen,
                "risen": risen,
                "limit": needed,
            },
        )


def _guessing(calls: list[LossCall]) -> float:
    """Return the loss from guessing by the frequencies of the classes.

    Raises:
        NotApplicable: the loss is not a plain class loss.
        NotEnoughData: no labels were recorded.
    """
    if not calls:
        raise NotApplicable("this loss series is not a class loss")
    if any(call.alone is False for call in calls):
        raise NotApplicable("the loss has several terms")
    if any(call.targets is not None and call.targets.weighted for call in calls):
        raise NotApplicable("the loss weights classes")
    return entropy(label_counts(calls))


def _in_passes(series: Series, begin: int, length: int) -> Floats:
    """Return the finite losses of all whole passes, shape (passes, steps).

    Raises:
        NotEnoughData: the window lacks steps of the first passes.
    """
    steps_S, loss_S = finite_part(series)
    if len(steps_S) != series.total or not np.array_equal(
        steps_S, np.arange(steps_S[0], steps_S[0] + len(steps_S))
    ):
        raise NotEnoughData("some losses since the start are no longer in the window")
    after_S = loss_S[steps_S >= begin]
    passes = len(after_S) // length
    whole_KP: Floats = after_S[: passes * length].reshape(passes, length)
    return whole_KP


def _rise_within(loss_KP: Floats) -> tuple[float, float]:
    """Return the rise of straight lines within passes, in total, and its standard error."""
    length = loss_KP.shape[1]
    time_P = np.arange(length) - (length - 1) / 2
    slope_K = (loss_KP - loss_KP.mean(axis=1, keepdims=True)) @ time_P / (time_P @ time_P)
    rest_KP = loss_KP - loss_KP.mean(axis=1, keepdims=True) - slope_K[:, None] * time_P
    error = float(rest_KP.std()) * np.sqrt(12 * len(loss_KP) / length)
    return float(slope_K.sum()) * length, float(error)
