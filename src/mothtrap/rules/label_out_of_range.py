"""DAT505: labels are out of the range that the loss accepts."""

from __future__ import annotations

import math

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.losses import FailedLoss, LossCall
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._effects import NOT_FINITE
from mothtrap.rules._loss_calls import (
    CLASS_LOSSES,
    INTEGERS,
    by_place,
    class_calls,
    finding_of_calls,
    is_classifier,
    train_calls,
)

OTHER_LABELS = ("Check how the labels are loaded, and why the ignored index replaces all of them.",)
"""Fix if every batch has only ignored labels."""
PIXELS = 100
"""Targets with at least this maximum count as unscaled pixels; chosen by hand."""
LEAST_CALLS, LEAST_LABELS = 3, 100
"""Minimum number of sampled calls, and of their labels, to report an ignored class; by hand."""
SIGNED = ("cosine_embedding_loss", "hinge_embedding_loss", "margin_ranking_loss")
"""Losses whose labels are -1 and 1."""


@frozen
class LabelOutOfRange(Rule):
    """Labels are out of the range that the loss accepts.

    What it detects:
        Class indices for which the model has no output. Targets of a binary cross-entropy
        outside of 0 to 1. Labels of 0 and 1 in a loss that expects -1 and 1, such as
        `cosine_embedding_loss`. Batches in which every label is ignored. A class of the model that
        the loss ignores.

    Why it matters:
        A class index beyond the outputs crashes training, on a GPU with an assertion that does
        not name the cause. Binary targets such as 2 or -1 leave the loss without a lower bound.
        A loss that expects -1 and 1 ignores rows with the label 0. If all labels of a batch are
        ignored, the mean loss is 0/0, and NaN spreads to every weight. A class that the loss
        ignores is never learned.

    Fires:
        Error when a loss call fails on such labels. Error at the first binary target that is more
        than `tolerance` outside of 0 to 1; only a note up to `noise`. Error at the first batch
        with only ignored labels if the loss is a mean. Warning when the loss ignores labels of a
        class for which the model has an output, in at least three sampled calls with 100 labels in
        total. A note for label maps if they are at least `area` of the labels, as a background is.

    Stays quiet:
        For soft targets within 0 to 1, and for summed losses over ignored labels. For ignored
        classes of tokens, which may be padding, and of few pixels, which may be unknown.

    What to do:
        - Number the classes from 0, and give the model one output per class.
        - Map the targets of a binary loss to 0 and 1: `(y > 0).float()` for labels -1 and 1.
        - Map labels of 0 and 1 to -1 and 1 for a loss that compares two rows: `2 * y - 1`.
        - Divide masks and pixels of 0 to 255 by 255.
        - Skip batches without labels, or divide the sum by `max(1, count)`.
        - Remove `ignore_index`, or mark rows without a label with -100, which is no class.

    Example:
        loss = F.binary_cross_entropy_with_logits(model(x), y)     # y is -1 or 1
        loss = F.binary_cross_entropy_with_logits(model(x), (y > 0).float())

    References:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html
    """

    code = "DAT505"
    needs = (
        Need(facts=(LossCall,)),
        Need(facts=(FailedLoss,), scalars=("loss",), optional=True),
    )
    explains = (
        *NOT_FINITE,
        "wrong_sign",
        "loss_diverging",
        "loss_not_decreasing",
        "exploding_gradient",
        "dead_units",
        "too_good_to_be_true",
        "weight_growth",
        "learning_rate_too_high",
        "stuck_at_chance",
        "constant_output",
        "labels_unrelated",
        "gradient_spike",
        "loss_spike",
        "unshuffled_batches",
        "class_imbalance",
        "stuck_at_margin",
    )

    tolerance: float = threshold(
        0.01, unit="beyond 0 or 1", source="chosen by hand: resized images overshoot"
    )
    noise: float = threshold(
        0.25, unit="beyond 0 or 1", source="chosen by hand: GAN labels may have added noise"
    )

    area: float = threshold(
        0.5, unit="of the labels of maps", source="chosen by hand: unknown areas are smaller"
    )

    def check(self, window: Window) -> list[Finding]:
        """Check a failed call, then the labels of every call site."""
        failed = list(window.seen(FailedLoss))
        if failed:
            found = self._failed(window, failed[-1])
            if found is not None:
                return [found]
        unsigned = [call for call in train_calls(window) if call.operation in SIGNED]
        if unsigned:
            return [self._unsigned(window, unsigned)]
        calls = [call for call in class_calls(window) if call.targets or call.label_counts]
        if not calls:
            raise NotEnoughData("no labels of a class loss were recorded")
        for same in by_place(calls):
            found = (
                self._outside(window, same)
                or self._all_ignored(window, same)
                or self._class_ignored(window, same)
            )
            if found is not None:
                return [found]
        return []

    def _failed(self, window: Window, call: FailedLoss) -> Finding | None:
        least, greatest = call.least, call.greatest
        if least is None or greatest is None:
            return None
        limit = (call.classes or 2) - 1 if call.operation in CLASS_LOSSES else 1
        if least >= 0 and greatest <= limit:
            return None
        return self.finding(
            window,
            severity=Severity.ERROR,
            step=call.step,
            fixes=self._fixes_of_range(window, call.operation, least, greatest),
            message=(
                f"{call.operation} failed: its targets range from {least:g} to {greatest:g}, but "
                f"it accepts 0 to {limit} ({call.error})"
            ),
            evidence={"least": least, "greatest": greatest, "limit": limit, "error": call.error},
            location=call.location,
        )

    def _outside(self, window: Window, calls: list[LossCall]) -> Finding | None:
        if not calls[0].operation.startswith("binary"):
            return None
        wrong = [call for call in calls if _beyond(call) > self.tolerance]
        if not wrong:
            return None
        least = min(c.targets.least or 0.0 for c in wrong if c.targets)
        greatest = max(c.targets.greatest or 0.0 for c in wrong if c.targets)
        is_noise = max(map(_beyond, wrong)) <= self.noise
        return finding_of_calls(
            self,
            window,
            wrong,
            Severity.INFO if is_noise else Severity.ERROR,
            f"targets of {wrong[0].operation} range from {least:g} to {greatest:g}, but must be "
            "between 0 and 1: the loss has no lower bound",
            {"least": least, "greatest": greatest},
            fixes=self._fixes_of_range(window, wrong[0].operation, least, greatest),
        )

    def _unsigned(self, window: Window, calls: list[LossCall]) -> Finding:
        return finding_of_calls(
            self,
            window,
            calls,
            Severity.WARNING,
            f"{calls[0].operation} gets labels of 0 and no labels of -1, but it expects -1 and 1: "
            "rows with the label 0 have no effect",
            {"least": 0.0},
            fixes=self.fixes(window)[2:3],
        )

    def _all_ignored(self, window: Window, calls: list[LossCall]) -> Finding | None:
        wrong = [
            call
            for call in calls
            if call.targets is not None
            and call.targets.ignored_share == 1
            and call.reduction == "mean"
        ]
        if not wrong:
            return None
        count = wrong[0].targets.count if wrong[0].targets else 0
        every = len(wrong) == len(calls) > 1
        return finding_of_calls(
            self,
            window,
            wrong,
            Severity.ERROR,
            f"all {count} labels of {'each' if every else 'a'} batch are ignored, so the mean "
            "loss is 0/0 (NaN)",
            {"ignored_share": 1.0, "targets": count},
            fixes=OTHER_LABELS if every else self.fixes(window)[4:5],
        )

    def _class_ignored(self, window: Window, calls: list[LossCall]) -> Finding | None:
        sampled = [call for call in calls if call.targets is not None]
        looked = [call for call in sampled if is_classifier(call)]
        maps = not looked
        if maps:
            looked = [call for call in sampled if _is_label_map(call)]
        samples = [call.targets for call in looked if call.targets is not None]
        ignored = {sample.ignored_class for sample in samples if sample.ignored_share}
        count = sum(sample.count for sample in samples)
        if len(samples) < LEAST_CALLS or count < LEAST_LABELS or len(ignored) != 1:
            return None
        [label] = ignored
        reads_tokens = any(kind in INTEGERS for kind in looked[0].model_inputs)
        if label is None or (reads_tokens and not all(call.alone for call in looked)):
            return None
        share = sum((sample.ignored_share or 0.0) * sample.count for sample in samples) / count
        if maps and share < self.area:
            return None
        return finding_of_calls(
            self,
            window,
            looked,
            Severity.INFO if maps else Severity.WARNING,
            f"the loss ignores label {label}, which is a class of the model and makes up "
            f"{share:.0%} of {count} sampled labels: this class is never learned",
            {"class": label, "ignored_share": share, "targets": count},
            fixes=self.fixes(window)[5:6],
        )

    def _fixes_of_range(
        self, window: Window, operation: str, least: float, greatest: float
    ) -> tuple[str, ...]:
        """Return the fixes for targets from `least` to `greatest`."""
        if operation in CLASS_LOSSES:
            return self.fixes(window)[:1]
        if least >= 0 and greatest >= PIXELS:
            return (f"Divide the targets by {greatest:g}, so that they are between 0 and 1.",)
        if (least, greatest) == (1, 2):
            return ("Number the two classes 0 and 1: subtract 1 from the labels.",)
        if least >= 0:
            return (
                "Use `cross_entropy` if the targets are indices of several classes; scale other "
                "targets to 0 to 1.",
            )
        return self.fixes(window)[1:2]


def _is_label_map(call: LossCall) -> bool:
    """Return whether each example has a map of labels, and the model does not read tokens."""
    maps = len(call.prediction_shape or ()) >= 4
    return maps and not any(kind in INTEGERS for kind in call.model_inputs)


def _beyond(call: LossCall) -> float:
    """Return the distance of targets from the range 0 to 1."""
    sample = call.targets
    if sample is None or sample.least is None or sample.greatest is None:
        return 0.0
    if not math.isfinite(sample.least) or not math.isfinite(sample.greatest):
        return 0.0
    return max(-sample.least, sample.greatest - 1)
