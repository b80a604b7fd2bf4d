"""DAT517: all labels are the same class."""

from __future__ import annotations

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._loss_calls import class_calls, finding_of_calls, label_counts
from mothtrap.rules._losses import has_players


@frozen
class LabelsOfOneClass(Rule):
    """All labels are the same class.

    What it detects:
        Labels that are equal for every sample.

    Why it matters:
        The model only learns to predict that class, yet the loss falls to 0.

    Fires:
        Error after `samples` labels in `calls` observed calls that are all one class, if the loss
        gets the output of a linear layer. The finding ends when another class appears.

    Stays quiet:
        For the real and fake batches of a GAN. For similarity scores, as in contrastive learning,
        in which the first class is always right.

    What to do:
        - Check the code that creates the labels: a wrong column, path or pattern gives one class.
        - Shuffle the data if they are sorted by class.

    Example:
        labels = [int("car" in path) for path in paths]      # all paths are in /data/cars
        labels = [int("car" in os.path.basename(path)) for path in paths]

    References:
        Humbatova et al. 2020, Taxonomy of real faults in deep learning systems, "wrong labels",
        https://arxiv.org/abs/1910.11015
    """

    code = "DAT517"
    needs = (Need(facts=(LossCall,)), Need(scalars=("loss",), optional=True))
    explains = (
        "class_imbalance",
        "constant_output",
        "learning_rate_too_low",
        "loss_not_decreasing",
        "overtraining",
        "stuck_at_chance",
        "too_good_to_be_true",
        "unshuffled_batches",
        "vanishing_gradient",
        "wrong_initial_loss",
    )
    passes = True

    samples: int = threshold(500, unit="labels", source="as in DAT503")
    calls: int = threshold(
        8, unit="observed calls", source="chosen by hand: the eighth call is observed by step 57"
    )

    def check(self, window: Window) -> list[Finding]:
        """Check all calls of the run together: in a GAN each call may have one class."""
        calls = [call for call in class_calls(window) if call.label_counts]
        if not calls:
            raise NotEnoughData("no labels of a class loss were recorded")
        if has_players(window) or not all(_is_linear(call) for call in calls):
            raise NotApplicable(
                "a single class may be intended, as in a GAN or for similarity scores"
            )
        counts_K = label_counts(calls)
        is_early = len({call.step for call in calls}) < self.calls or counts_K.sum() < self.samples
        if is_early and (counts_K > 0).sum() == 1:
            raise NotEnoughData(f"needs {self.samples} labels, saw {int(counts_K.sum())}")
        if len(counts_K) < 2 or (counts_K > 0).sum() != 1:
            return []
        only = int(counts_K.argmax())
        return [
            finding_of_calls(
                self,
                window,
                calls,
                Severity.ERROR,
                f"all {int(counts_K.sum())} labels are class {only}, so the model cannot learn to "
                "classify",
                {"class": only, "labels": int(counts_K.sum()), "classes": len(counts_K)},
            )
        ]


def _is_linear(call: LossCall) -> bool:
    return next((name for name in call.chain if name not in ("cast", "sigmoid")), "") == "linear"
