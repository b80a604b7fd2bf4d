"""DAT510: a model is evaluated on rows that it is trained on."""

from __future__ import annotations

import numpy as np
from msgspec import structs

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.data import IndicesShared, InputDistribution, RowsShared, SplitDrawn
from mothtrap.core.facts.evaluations import EvaluationPhase, LossRowsShared
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.facts.pipelines import SplitReshuffled
from mothtrap.core.facts.trainers import TrainingPhase
from mothtrap.core.facts.workers import Resumed
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need, any_of
from mothtrap.core.packed import unpack
from mothtrap.core.rule import Rule
from mothtrap.core.steps import Mode
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window

OF_TABLES = (
    "Split first, then resample or copy training rows only: `train_test_split(x, y)`.",
    "Drop duplicate rows before the split: `frame.drop_duplicates()`.",
)
"""Fixes for libraries that get whole tables."""


@frozen
class TrainEvalOverlap(Rule):
    """A model is evaluated on rows that it is trained on.

    What it detects:
        Samples that both a training loader and an evaluation loader draw, and rows of evaluation
        inputs that are equal, bit for bit, to training rows.

    Why it matters:
        A model can memorize its training rows. The evaluation then shows generalization where there
        is only memorization, and overfitting stays hidden until the model is used.

    Fires:
        Error in four cases. Two loaders share `samples` samples. Both sets are parts of one shuffle
        that reshuffles in each epoch. At least `low_share` and less than `high_share` of an
        evaluation's rows (`rows` of them or more) were trained on, and this is `chance_ratio` times
        more than equal rows in the data explain, or the rows are copies of one another. Samples
        evaluated after a job resumed were trained on before it. Warning when all evaluation rows
        were trained on, nothing else is evaluated, and they are only a part of the training data or
        come from a loader with its own dataset. Warning when a trainer validates only on the
        training data. Info when the training data themselves are evaluated, or a single batch of
        them without labels, for example to draw pictures.

    Stays quiet:
        Data with many equal rows, such as a few discrete features. Augmented inputs. Training data
        that are never seen twice, because then not all of them are known. Models that get all rows
        in every call, as in graph learning, if the training losses use only part of them (see
        DAT522).

    What to do:
        - PyTorch: Split once, with fixed indices: `random_split(data, lengths,
          generator=torch.Generator().manual_seed(0))`.
        - Keras, JAX, scikit-learn: Split once, with fixed indices: `train_test_split(x, y,
          random_state=0)`.
        - Remove duplicates before splitting; oversample rare rows after splitting.
        - Split by patient, speaker or document if several rows come from one.

    Example:
        train, held_out = data[:800], data[700:]      # 100 rows in both
        train, held_out = data[:800], data[800:]

    References:
        Kapoor, Narayanan 2023, Leakage and the reproducibility crisis in
        machine-learning-based science, https://doi.org/10.1016/j.patter.2023.100804
    """

    code = "DAT510"
    title = "overlap of training and evaluation data"
    needs = (
        *any_of(
            Need(facts=(IndicesShared,)),
            Need(facts=(RowsShared,)),
            Need(facts=(SplitReshuffled,)),
        ),
        Need(facts=(EvaluationPhase, Resumed, SplitDrawn, TrainingPhase), optional=True),
        Need(facts=(InputDistribution, LossCall, LossRowsShared), optional=True),
    )
    explains = ("too_good_to_be_true",)

    samples: int = threshold(
        1, unit="samples drawn by both loaders", source="a single shared sample is a leak"
    )
    low_share: float = threshold(0.05, unit="of the rows", source="chosen by hand")
    high_share: float = threshold(
        0.95,
        unit="of the rows",
        source="chosen by hand: above it, the evaluation data are training data",
    )
    rows: int = threshold(5, unit="rows", source="chosen by hand: fewer may be equal by chance")
    chance_ratio: float = threshold(
        10.0, unit="times the share that equal rows explain", source="chosen by hand"
    )

    def check(self, window: Window) -> list[Finding]:
        """Check for shared samples of loaders, then for equal rows."""
        indices, rows = list(window.seen(IndicesShared)), list(window.seen(RowsShared))
        splits = {one.source: one for one in window.seen(SplitReshuffled)}
        resumed = any(one.splits for one in window.seen(Resumed))
        if not indices and not rows and not splits and not resumed:
            raise NotEnoughData(
                "no evaluation was recorded after the first pass over the training data"
            )
        found = [self._by_indices(window, one, rows) for one in indices]
        told = {one.eval_loader for one in indices}
        judged = [one for one in rows if one.copied or one.source not in told]
        clean = any(self._share(one) < self.low_share for one in rows) or any(
            not one.shared for one in indices
        )
        found += [self._by_rows(window, one, clean=clean) for one in _latest(judged)]
        found += [self._reshuffled(window, one) for one in splits.values()]
        found += [self._before_resuming(window, one) for one in window.seen(Resumed)]
        return [finding for finding in found if finding is not None]

    def _share(self, one: RowsShared) -> float:
        return one.shared / max(1, one.eval_rows)

    def _by_indices(
        self, window: Window, one: IndicesShared, rows: list[RowsShared]
    ) -> Finding | None:
        if one.shared < self.samples:
            return None
        contained = one.shared == one.eval_samples
        elsewhere = contained and any(
            self._share(other) < self.low_share for other in rows if other.source != one.eval_loader
        )
        itself = contained and (elsewhere or one.eval_samples >= 0.9 * one.train_samples)
        said = (
            f"{one.eval_loader} (evaluation) shares {one.shared} of its {one.eval_samples} "
            f"samples with the {one.train_samples} of {one.train_loader} (training)"
        )
        return self.finding(
            window,
            severity=_severity_of_itself(window) if itself else Severity.ERROR,
            step=one.step,
            message=said,
            evidence={
                "shared": one.shared,
                "eval_samples": one.eval_samples,
                "train_samples": one.train_samples,
                "share": one.shared / max(1, one.eval_samples),
            },
            location=one.location,
            mode=Mode.EVAL.value,
        )

    def _by_rows(self, window: Window, one: RowsShared, *, clean: bool) -> Finding | None:
        share = self._share(one)
        if _is_masked(window, one):
            return None
        if one.copied and one.shared >= self.rows and share < self.high_share:
            return self._copied(window, one)
        if one.earlier:
            return self._by_earlier(window, one) if share >= self.low_share else None
        explained = share < self.chance_ratio * one.expected_share
        if one.shared < self.rows or share < self.low_share:
            return None
        severity, words = Severity.ERROR, ""
        if share >= self.high_share:
            whole = one.eval_rows >= 0.9 * one.train_rows and not one.own_dataset
            itself = clean or whole or _pictured(window, one.module)
            severity = Severity.INFO if itself or explained else Severity.WARNING
            words = ": the evaluation data are the training data"
        elif explained:
            return None
        return self.finding(
            window,
            severity=severity,
            step=one.step,
            message=(
                f"{one.shared} of the {one.eval_rows} rows on which {one.module} is evaluated "
                f"({one.argument}, {one.source}) were also used for training{words}"
            ),
            layers=(one.module,),
            fixes=OF_TABLES if one.module == "the booster" else None,
            evidence={
                "share": share,
                "limit": self.low_share,
                "expected_share": one.expected_share,
                "train_rows": one.train_rows,
                "eval_rows": one.eval_rows,
            },
            location=one.location,
            mode=Mode.EVAL.value,
        )

    def _by_earlier(self, window: Window, one: RowsShared) -> Finding:
        """Check rows of an earlier training run of the same model, as in another fold."""
        return self.finding(
            window,
            severity=Severity.WARNING,
            step=one.step,
            message=(
                f"{one.shared} of the {one.eval_rows} rows on which {one.module} is evaluated "
                f"({one.argument}, {one.source}) were used for training in an earlier fit, and "
                "the model still has the weights of that fit"
            ),
            layers=(one.module,),
            evidence={"share": self._share(one), "limit": self.low_share},
            location=one.location,
            mode=Mode.EVAL.value,
            fixes=("Build and compile a new model for each fold, inside the loop.",),
        )

    def _reshuffled(self, window: Window, one: SplitReshuffled) -> Finding:
        """Check for parts of one shuffle: sooner or later, every row is in both parts."""
        return self.finding(
            window,
            severity=Severity.ERROR,
            step=one.step,
            message=(
                f"training and evaluation data ({one.source}) come from one shuffle "
                "that is repeated in each epoch: in the end every row is trained on"
            ),
            location=one.location,
            mode=Mode.EVAL.value,
            fixes=(
                "Shuffle once: `shuffle(size, reshuffle_each_iteration=False)` before `take` and "
                "`skip`; or split first, then shuffle the training part.",
            ),
        )

    def _before_resuming(self, window: Window, resumed: Resumed) -> Finding | None:
        """Check for evaluated rows that were trained on before the job resumed."""
        for now in window.seen(SplitDrawn):
            for before in resumed.splits:
                if now.step < resumed.step or (now.data, now.size) != (before.data, before.size):
                    continue
                evaluated_N, trained_N = unpack(now.evaluated), unpack(before.trained)
                shared = len(np.intersect1d(evaluated_N, trained_N))
                at_first = len(np.intersect1d(unpack(before.evaluated), trained_N))
                if shared < max(self.rows, self.low_share * len(evaluated_N)) or at_first:
                    continue
                return self._split_differently(window, now, resumed.step, shared, len(evaluated_N))
        return None

    def _split_differently(
        self, window: Window, now: SplitDrawn, resumed: int, shared: int, evaluated: int
    ) -> Finding:
        return self.finding(
            window,
            severity=Severity.ERROR,
            step=max(now.step, resumed),
            message=(
                f"{shared} of the {evaluated} samples that {now.eval_loader} evaluates were "
                f"trained on before the job resumed at step {resumed}: the resumed job split the "
                "data differently"
            ),
            evidence={"shared": shared, "eval_samples": evaluated, "resumed": resumed},
            location=now.location,
            mode=Mode.EVAL.value,
            fixes=(
                "Split with a fixed seed, or save the indices of the split in the checkpoint: "
                "`random_split(data, lengths, generator=torch.Generator().manual_seed(0))`.",
            ),
        )

    def _copied(self, window: Window, one: RowsShared) -> Finding | None:
        """Check for rows that were copied before the split into training and evaluation data."""
        share = one.share_of_all if one.share_of_all is not None else self._share(one)
        if share < self.low_share:
            return None
        split, drop, *rest = self.fixes(window)
        return self.finding(
            window,
            severity=Severity.ERROR,
            step=one.step,
            message=(
                f"copies of {one.shared} rows are in training and in evaluation: {share:.0%} of "
                f"the rows on which {one.module} is evaluated ({one.argument}, {one.source}) "
                "were trained on"
            ),
            layers=(one.module,),
            evidence={
                "share": share,
                "limit": self.low_share,
                "rows": one.shared,
                "train_rows": one.train_rows,
                "eval_rows": one.eval_rows,
            },
            location=one.location,
            mode=Mode.EVAL.value,
            fixes=(drop, split, *rest),
        )


def _latest(reports: list[RowsShared]) -> list[RowsShared]:
    """Return the latest report on each evaluation, with the step of the first that shares rows."""
    first: dict[tuple[str, str | None], int] = {}
    latest: dict[tuple[str, str | None], RowsShared] = {}
    for one in reports:
        key = (one.source, one.location)
        if one.shared:
            first.setdefault(key, one.step)
        latest[key] = structs.replace(one, step=first.get(key, one.step))
    return list(latest.values())


def _is_masked(window: Window, one: RowsShared) -> bool:
    """Return whether a model gets all rows in every call, and its losses use only part of them."""
    compared = list(window.seen(LossRowsShared))
    if compared:
        return max(seen.train_rows for seen in compared) < one.train_rows
    if min(one.shared, one.eval_rows) < one.train_rows:
        return False  # with masked losses, an evaluation would get all rows, too
    given = {
        seen.rows
        for seen in window.seen(InputDistribution)
        if seen.mode is Mode.TRAIN and (seen.module, seen.argument) == (one.module, one.argument)
    }
    calls = [call for call in window.seen(LossCall) if call.mode is Mode.TRAIN]
    used = [call.targets.count for call in calls if call.targets is not None]
    used = used or [call.prediction_shape[0] for call in calls if call.prediction_shape]
    if len(given) != 1 or not used:
        return False
    return max(used) < one.train_rows <= max(given)


def _severity_of_itself(window: Window) -> Severity:
    """Return the severity if the training data are evaluated: a trainer should validate on others.

    Scripts without a trainer often evaluate the training data on purpose.
    """
    validates = any(one.phase == "validation" for one in window.seen(TrainingPhase))
    others = any(not one.shared for one in window.seen(IndicesShared))
    return Severity.WARNING if validates and not others else Severity.INFO


def _pictured(window: Window, module: str) -> bool:
    """Return whether a module is evaluated on only one batch, and no loss is computed."""
    phases = [phase for phase in window.seen(EvaluationPhase) if phase.module == module]
    return bool(phases) and all(p.forwards == 1 and p.labelled == 0 for p in phases)
