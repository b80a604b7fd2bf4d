"""STR715: the loss, the last layer and the labels do not fit one another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mothtrap.core.errors import NotApplicable
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._effects import UNLEARNED
from mothtrap.rules._loss_calls import by_place, chosen_at, finding_of_calls, train_calls

INTEGERS = ("int64", "int32", "int16", "uint8", "int8")
TOLERANCE = 1e-3


@dataclass(frozen=True, kw_only=True)
class _Mismatch:
    severity: Severity
    message: str
    fix: str


@dataclass(frozen=True)
class LossMismatch(Rule):
    """The loss does not fit the last layer, or the labels.

    What it detects:
        A loss of probabilities that is given scores; a class loss over a single output; softmax
        over a single output; softmax outputs of several classes, of which an example has one,
        under a binary loss; sigmoid outputs, or labels of which several are right, under a loss
        over classes; rows of labels that are all 0; class numbers that are learned as quantities.

    Why it matters:
        All of these run without an error. The loss falls, or is 0 from the beginning, and the
        accuracy says little: with 10 classes, a binary loss begins at 90 %.

    Fires:
        Error for scores outside of 0 to 1 under a loss of probabilities in `calls` calls, for a
        class loss over one output, and for softmax over one output. Warning for the others;
        several labels are right where a row sums to `several`.

    Stays quiet:
        Several labels for an example under a binary loss, squared errors of probabilities, and
        quantities that are stored as integers of more than `most_classes` values.

    What to do:
        - Give the loss what it expects: probabilities, or `from_logits=True` and scores.
        - For one label of several classes, put out one score for each class, and use a
          cross-entropy over classes.
        - For two classes, put out one number through a sigmoid, and use a binary cross-entropy.

    Example:
        keras.layers.Dense(1, activation="softmax")     # is 1, whatever the input
        keras.layers.Dense(1, activation="sigmoid")

    References:
        https://keras.io/api/losses/probabilistic_losses/
    """

    code = "STR715"
    needs = (Need(facts=(LossCall,)),)
    explains = (
        *UNLEARNED,
        *("constant_output", "learning_rate_too_low", "loss_diverging", "overfit", "overtraining"),
        *("wrong_initial_loss", "dead_units", "unchanged_tensor", "update_ratio"),
        *("vanishing_gradient", "learning_rate_too_high", "loss_oscillating", "labels_unrelated"),
        *("missing_activation_range", "softmax_wrong_dim", "too_good_to_be_true"),
        *(
            "activation_growth",
            "nonfinite_loss",
            "exploding_gradient",
            "gradient_spike",
            "loss_spike",
        ),
    )

    calls: int = threshold(2, unit="calls from one line", source="chosen by hand")
    several: float = threshold(
        1.9, unit="summed labels of a row", source="chosen by hand: smoothed ones sum to 1"
    )
    most_classes: int = threshold(20, unit="different integers", source="chosen by hand")

    def check(self, window: Window) -> list[Finding]:
        """Judge every place at which a loss is computed."""
        calls = [call for call in train_calls(window) if call.function is not None]
        if not calls:
            raise NotApplicable("no loss was called by its name")
        found = []
        for same in by_place(calls):
            for mismatch in self._mismatches(same):
                found.append(
                    finding_of_calls(
                        self,
                        window,
                        same,
                        mismatch.severity,
                        mismatch.message,
                        {
                            "loss": same[0].function,
                            "chain": " <- ".join(same[0].chain) or None,
                            "outputs": (same[0].prediction_shape or (None,))[-1],
                        },
                        (mismatch.fix,),
                        chosen_at(same[0]),
                    )
                )
                break
        return sorted(found, key=lambda finding: finding.severity.rank)[:1]

    def _mismatches(self, calls: list[LossCall]) -> Iterator[_Mismatch]:
        """All that does not fit, the surest first."""
        first = calls[0]
        outputs = (first.prediction_shape or (0,))[-1]
        if first.operation == "cross_entropy" and outputs == 1:
            yield _Mismatch(
                severity=Severity.ERROR,
                message=f"`{first.function}` runs over a single output: it is 0, or constant, "
                "whatever the model says",
                fix='Use `loss="binary_crossentropy"` with one sigmoid output, or put out one '
                "score for each class.",
            )
        if outputs == 1 and first.chain[:1] == ("softmax",):
            yield _Mismatch(
                severity=Severity.ERROR,
                message="softmax runs over a single output, so the model always says 1",
                fix='Use `activation="sigmoid"` on the last layer.',
            )
        yield from self._scores(calls)
        if first.operation == "binary_cross_entropy" and first.chain[:1] == ("softmax",):
            yield from self._binary(calls, outputs)
        if first.operation == "cross_entropy" and outputs > 1 and first.chain[:1] == ("sigmoid",):
            yield _Mismatch(
                severity=Severity.WARNING,
                message=f"`{first.function}` over {outputs} classes is given sigmoid outputs, "
                "which do not sum to 1",
                fix='Use `activation="softmax"` on the last layer, or `binary_crossentropy` where '
                "an example may have several labels.",
            )
        yield from self._several_labels(calls)
        yield from self._without_label(calls)
        yield from self._class_numbers(calls, outputs)

    def _scores(self, calls: list[LossCall]) -> Iterator[_Mismatch]:
        """Numbers outside of 0 to 1 where probabilities are expected."""
        expecting = [
            call
            for call in calls
            if call.predicts_probabilities
            and call.predicted_least is not None
            and call.predicted_greatest is not None
        ]
        outside = [
            call
            for call in expecting
            if (call.predicted_least or 0.0) < -TOLERANCE
            or (call.predicted_greatest or 0.0) > 1 + TOLERANCE
        ]
        if len(outside) < self.calls or 2 * len(outside) < len(expecting):
            return
        least = min(call.predicted_least or 0.0 for call in outside)
        greatest = max(call.predicted_greatest or 0.0 for call in outside)
        name = calls[0].function
        activation = "sigmoid" if calls[0].operation.startswith("binary") else "softmax"
        yield _Mismatch(
            severity=Severity.ERROR,
            message=f"`{name}` expects probabilities, but is given values from {least:.3g} to "
            f"{greatest:.3g}: {activation} is missing",
            fix=f'Give the loss `from_logits=True`, or the last layer `activation="{activation}"`.',
        )

    def _binary(self, calls: list[LossCall], outputs: int) -> Iterator[_Mismatch]:
        """A binary loss over classes of which an example has one."""
        if outputs < 2:
            return
        yield _Mismatch(
            severity=Severity.WARNING,
            message=f"`{calls[0].function}` is given softmax over {outputs} classes: it judges "
            "each class apart, and so does an accuracy that is chosen by it",
            fix='Use `loss="categorical_crossentropy"`, or `"sparse_categorical_crossentropy"` '
            "for class numbers.",
        )

    def _several_labels(self, calls: list[LossCall]) -> Iterator[_Mismatch]:
        """Labels of which several are right, under a loss over classes of which one is."""
        samples = [c.targets for c in calls if c.targets is not None and c.targets.row_sums]
        sums = [bound for sample in samples for bound in sample.row_sums or ()]
        if len(samples) < self.calls or max(sums) < self.several:
            return
        yield _Mismatch(
            severity=Severity.WARNING,
            message=f"a row of labels sums to up to {max(sums):.3g}, but `{calls[0].function}` is "
            "for rows of which one class is right",
            fix='Where several labels may be right, end in `activation="sigmoid"`, and use '
            '`loss="binary_crossentropy"`.',
        )

    def _without_label(self, calls: list[LossCall]) -> Iterator[_Mismatch]:
        """Rows of labels of which none is right."""
        samples = [c.targets for c in calls if c.targets is not None and c.targets.row_sums]
        empty = sum(sample.row_sums is not None and not sample.row_sums[0] for sample in samples)
        if empty < self.calls or len(calls[0].target_shape or ()) != 2:
            return
        yield _Mismatch(
            severity=Severity.WARNING,
            message=f"some rows of labels are all 0, so `{calls[0].function}` learns nothing from "
            "them",
            fix="Number the classes from 0: `one_hot(y - 1, classes)` where the first is 1. A "
            "number that is no class gives a row of zeros.",
        )

    def _class_numbers(self, calls: list[LossCall], outputs: int) -> Iterator[_Mismatch]:
        """Integers of a few values, learned as quantities by one output."""
        samples = [call.targets for call in calls if call.targets is not None]
        if calls[0].operation != "elementwise" or outputs != 1 or len(samples) < self.calls:
            return
        if any(sample.dtype not in INTEGERS or sample.least is None for sample in samples):
            return
        least = min(sample.least or 0.0 for sample in samples)
        greatest = max(sample.greatest or 0.0 for sample in samples)
        if least not in (0.0, 1.0) or not 1 < greatest - least < self.most_classes:
            return
        classes = int(greatest - least) + 1
        yield _Mismatch(
            severity=Severity.WARNING,
            message=f"`{calls[0].function}` learns the integers {least:g} to {greatest:g} as one "
            "quantity; if they are classes, it cannot tell them apart",
            fix=f'For classes, end in `Dense({classes}, activation="softmax")` with '
            '`loss="sparse_categorical_crossentropy"`.',
        )
