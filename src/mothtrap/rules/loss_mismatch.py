"""STR715: the loss does not match the last layer or the labels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mothtrap.core.errors import NotApplicable
from mothtrap.core.facts.losses import LossCall, TargetSample
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
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


@frozen
class LossMismatch(Rule):
    """The loss does not match the last layer or the labels.

    What it detects:
        Logits in a loss that expects probabilities. A categorical loss or softmax over a single
        output. Softmax outputs in a binary loss. Sigmoid outputs or multi-label targets in a
        categorical loss. Label rows that are all 0. Class indices that are fitted as
        quantities.

    Why it matters:
        All of these run without an error. The loss falls, or is 0 from the start, and the
        accuracy is misleading: with 10 classes, binary accuracy starts at 90 %.

    Fires:
        Error for values outside of 0 to 1 in a loss that expects probabilities, in `calls`
        calls; for a categorical loss over one output; and for softmax over one output. Warning
        for the others. Targets count as multi-label if a row sums to `several`. Info for a binary
        loss over at least 3 labels, of which each of `exclusive` inspected rows has exactly one.

    Stays quiet:
        For multi-label targets in a binary loss, squared errors of probabilities, and quantities
        stored as integers with more than `most_classes` values.

    What to do:
        - Match the loss and the last layer: probabilities, or logits and `from_logits=True`.
        - For one label out of several classes, output one score per class and use a categorical
          cross-entropy.
        - For two classes, output one number through a sigmoid and use a binary cross-entropy.
        - PyTorch: For several labels per example, use `F.binary_cross_entropy_with_logits`.

    Example:
        keras.layers.Dense(1, activation="softmax")     # is 1 for every input
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
        1.9, unit="sum of a row of labels", source="chosen by hand: smoothed labels sum to 1"
    )
    exclusive: int = threshold(
        64, unit="rows with exactly one label", source="chosen by hand: rare for several labels"
    )
    most_classes: int = threshold(20, unit="different integers", source="chosen by hand")

    def check(self, window: Window) -> list[Finding]:
        """Check every line that computes a loss."""
        calls = [
            call
            for call in train_calls(window)
            if call.function is not None or call.operation.startswith(("elementwise", "binary"))
        ]
        if not calls:
            raise NotApplicable("no known loss function was called")
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
        """Yield all mismatches, the most certain first."""
        first = calls[0]
        outputs = (first.prediction_shape or (0,))[-1]
        if first.function is None:
            binary = first.operation.startswith("binary")
            yield from self._exclusive(calls) if binary else self._class_numbers(calls, outputs)
            return
        if first.operation == "cross_entropy" and outputs == 1:
            yield _Mismatch(
                severity=Severity.ERROR,
                message=f"`{first.function}` runs over a single output, so it is 0 or constant "
                "for every prediction",
                fix="Use `F.binary_cross_entropy_with_logits`, or output one score per class."
                if first.function == "cross_entropy"
                else 'Use `loss="binary_crossentropy"` with one sigmoid output, or output one '
                "score per class.",
            )
        if outputs == 1 and first.chain[:1] == ("softmax",):
            yield _Mismatch(
                severity=Severity.ERROR,
                message="softmax runs over a single output, so the model always predicts 1",
                fix='Use `activation="sigmoid"` on the last layer.',
            )
        yield from self._scores(calls)
        if first.operation == "binary_cross_entropy" and first.chain[:1] == ("softmax",):
            yield from self._binary(calls, outputs)
        if first.operation == "cross_entropy" and outputs > 1 and first.chain[:1] == ("sigmoid",):
            yield _Mismatch(
                severity=Severity.WARNING,
                message=f"`{first.function}` over {outputs} classes gets sigmoid outputs, "
                "which do not sum to 1",
                fix='Use `activation="softmax"` on the last layer, or `binary_crossentropy` if '
                "an example can have several labels.",
            )
        if first.operation.startswith("binary"):
            yield from self._exclusive(calls)
        else:
            yield from self._several_labels(calls)
            yield from self._without_label(calls)
        yield from self._class_numbers(calls, outputs)

    def _scores(self, calls: list[LossCall]) -> Iterator[_Mismatch]:
        """Find values outside of 0 to 1 in a loss that expects probabilities."""
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
            message=f"`{name}` expects probabilities but gets values from {least:.3g} to "
            f"{greatest:.3g}: {activation} is missing",
            fix=f'Set `from_logits=True` on the loss, or `activation="{activation}"` on the last '
            "layer.",
        )

    def _binary(self, calls: list[LossCall], outputs: int) -> Iterator[_Mismatch]:
        """Find a binary loss over mutually exclusive classes."""
        if outputs < 2:
            return
        yield _Mismatch(
            severity=Severity.WARNING,
            message=f"`{calls[0].function}` gets softmax over {outputs} classes: the loss treats "
            "each class separately, and so does an accuracy derived from the loss",
            fix='Use `loss="categorical_crossentropy"`, or `"sparse_categorical_crossentropy"` '
            "for class indices.",
        )

    def _exclusive(self, calls: list[LossCall]) -> Iterator[_Mismatch]:
        """Find a binary loss over classes of which each row has exactly one."""
        first = calls[0]
        if len(first.target_shape or ()) != 2 or first.alone is not True:
            return
        size, classes = first.target_shape or (0, 0)
        samples = [call.targets for call in calls if call.targets is not None]
        samples = [sample for sample in samples if sample.row_sums]
        rows = sum(sample.count for sample in samples) // max(classes, 1)
        if len(samples) < self.calls or rows < self.exclusive or classes in (1, 2, size):
            return
        if len(samples) < len(calls) / 2 or not all(map(_is_one_hot, samples)):
            return
        yield _Mismatch(
            severity=Severity.INFO,
            message=f"each of {rows} inspected rows has exactly one of {classes} labels, but "
            f"`{first.function or first.operation}` treats each label separately",
            fix="If the classes exclude each other, pass class numbers to a categorical "
            "cross-entropy. Models of Hugging Face choose the loss by the type of the labels: pass "
            "integers (`labels.argmax(-1)`), not one-hot floats.",
        )

    def _several_labels(self, calls: list[LossCall]) -> Iterator[_Mismatch]:
        """Find multi-label targets in a categorical loss."""
        samples = [c.targets for c in calls if c.targets is not None and c.targets.row_sums]
        sums = [bound for sample in samples for bound in sample.row_sums or ()]
        if len(samples) < self.calls or max(sums) < self.several:
            return
        yield _Mismatch(
            severity=Severity.WARNING,
            message=f"a row of labels sums to {max(sums):.3g}, but `{calls[0].function}` expects "
            "rows that sum to 1",
            fix="If an example can have several labels, use `F.binary_cross_entropy_with_logits`."
            if calls[0].function == "cross_entropy"
            else 'If an example can have several labels, use `activation="sigmoid"` on the last '
            'layer and `loss="binary_crossentropy"`.',
        )

    def _without_label(self, calls: list[LossCall]) -> Iterator[_Mismatch]:
        """Find rows of labels that are all 0."""
        samples = [c.targets for c in calls if c.targets is not None and c.targets.row_sums]
        empty = sum(sample.row_sums is not None and not sample.row_sums[0] for sample in samples)
        if empty < self.calls or len(calls[0].target_shape or ()) != 2:
            return
        yield _Mismatch(
            severity=Severity.WARNING,
            message=f"some rows of labels are all 0, so `{calls[0].function}` learns nothing from "
            "them",
            fix="Number the classes from 0: `one_hot(y - 1, classes)` if the first class is 1. An "
            "index out of range gives a row of zeros.",
        )

    def _class_numbers(self, calls: list[LossCall], outputs: int) -> Iterator[_Mismatch]:
        """Find class indices that one output fits as a quantity."""
        samples = [call.targets for call in calls if call.targets is not None]
        one = outputs == 1 or len(calls[0].prediction_shape or ()) == 1
        if calls[0].operation != "elementwise" or not one or len(samples) < self.calls:
            return
        if any(sample.dtype not in INTEGERS or sample.least is None for sample in samples):
            return
        least = min(sample.least or 0.0 for sample in samples)
        greatest = max(sample.greatest or 0.0 for sample in samples)
        if least not in (0.0, 1.0) or not 1 <= greatest - least < self.most_classes:
            return
        classes = int(greatest - least) + 1
        yield _Mismatch(
            severity=Severity.WARNING,
            message=f"{_name(calls[0])} treats the integers {least:g} to {greatest:g} as "
            "quantities; if they are class indices, use a categorical loss",
            fix=f"For classes, output {classes} scores, one per class (`num_labels={classes}` in "
            "Hugging Face models), and use a categorical cross-entropy.",
        )


def _name(call: LossCall) -> str:
    return f"`{call.function}`" if call.function is not None else "the loss"


def _is_one_hot(sample: TargetSample) -> bool:
    """Return whether each row of a sample is 1 for one class, and 0 for the others."""
    if sample.mean is None or sample.std is None:
        return False
    of_bits = sample.mean * (1 - sample.mean)
    return sample.row_sums == (1.0, 1.0) and abs(sample.std**2 - of_bits) < 1e-6
