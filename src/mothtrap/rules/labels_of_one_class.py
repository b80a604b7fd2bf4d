"""DAT517: all labels are of one class."""

from __future__ import annotations

from dataclasses import dataclass

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._loss_calls import class_calls, finding_of_calls, label_counts
from mothtrap.rules._losses import has_players


@dataclass(frozen=True)
class LabelsOfOneClass(Rule):
    """All labels are of one class.

    What it detects:
        Labels that say the same of every sample.

    Why it matters:
        From them nothing can be learned: the model only comes to say that class, and the loss
        falls to 0 all the same.

    Fires:
        Error after `samples` labels in `calls` looks that are all of one class, where the loss
        receives the output of a linear layer. It has passed when another class comes.

    Stays quiet:
        Games (a GAN's real and fake batches), and scores that are similarities, as in contrastive
        learning, in which the right answer is always the first.

    What to do:
        - Look at where the labels are made: a wrong column, path or pattern gives one class.
        - Shuffle, if the data are sorted by class: other classes come later then.

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

    samples: int = threshold(500, unit="labels", source="as in class_imbalance")
    calls: int = threshold(8, unit="looks at the labels", source="chosen by hand: 57 steps")

    def check(self, window: Window) -> list[Finding]:
        """Look at all calls of the run together: an adversary may have one class a call."""
        calls = [call for call in class_calls(window) if call.label_counts]
        if not calls:
            raise NotEnoughData("no labels of a class loss were seen")
        if has_players(window) or not all(_is_linear(call) for call in calls):
            raise NotApplicable("one class may be meant: a game, or scores that are similarities")
        counts_K = label_counts(calls)
        is_early = len({call.step for call in calls}) < self.calls or counts_K.sum() < self.samples
        if is_early and (counts_K > 0).sum() == 1:
            raise NotEnoughData(
                f"{int(counts_K.sum())} labels were seen, {self.samples} are needed"
            )
        if len(counts_K) < 2 or (counts_K > 0).sum() != 1:
            return []
        only = int(counts_K.argmax())
        return [
            finding_of_calls(
                self,
                window,
                calls,
                Severity.ERROR,
                f"all of {int(counts_K.sum())} labels are of class {only}: nothing can be learned",
                {"class": only, "labels": int(counts_K.sum()), "classes": len(counts_K)},
            )
        ]


def _is_linear(call: LossCall) -> bool:
    return next((name for name in call.chain if name not in ("cast", "sigmoid")), "") == "linear"
