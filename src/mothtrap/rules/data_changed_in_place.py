"""DAT519: the data are changed in place, once more in every pass."""

from __future__ import annotations

from dataclasses import dataclass

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.data import LoaderBegan, RowsRescaled
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.steps import Mode
from mothtrap.core.window import Window
from mothtrap.rules._effects import NOT_FINITE, UNLEARNED


@dataclass(frozen=True)
class DataChangedInPlace(Rule):
    """The data are changed in place, once more in every pass.

    What it detects:
        Samples that a loader draws in several passes, whose values in each pass are those of
        the pass before times a constant, plus a constant: the same for all samples.

    Why it matters:
        A transformation that was meant for one pass is applied again in every pass. The data
        grow or shrink by the same factor each time, and the model trains on other
        data than it is evaluated on.

    Fires:
        Error when eight or more samples change by the same factor from one pass to the next,
        and so in two passes in a row. A line must fit the values of each sample to 0.001
        standard deviations.

    Stays quiet:
        Random augmentation, whose numbers differ from sample to sample; data that come unchanged;
        loaders that draw no indices; passes with a factor of their own.

    What to do:
        - Transform a copy: `image.sub(mean).div(std)` or `image.clone()`, not `sub_` and `div_`,
          and in numpy `image = image / 255`, not `image /= 255`.
        - Transform all data once, before training, and not where a sample is taken.

    Example:
        return self.images[i].sub_(mean).div_(std)     # changes the stored image
        return self.images[i].sub(mean).div(std)       # makes a new one

    References:
        PyTorch, in-place operations, https://docs.pytorch.org/docs/stable/notes/autograd.html
    """

    code = "DAT519"
    title = "data changed in place"
    needs = (Need(facts=(RowsRescaled,)), Need(facts=(LoaderBegan,), optional=True))
    explains = (
        *NOT_FINITE,
        *UNLEARNED,
        "activation_growth",
        "dead_units",
        "exploding_gradient",
        "gradient_spike",
        "learning_rate_too_high",
        "loss_diverging",
        "loss_oscillating",
        "loss_spike",
        "nothing_learned",
        "overfit",
        "overtraining",
        "saturated_activation",
        "train_eval_shift",
        "unnormalized_input",
        "vanishing_gradient",
        "weight_growth",
    )

    def check(self, window: Window) -> list[Finding]:
        """Report the loader of training first."""
        found = sorted(window.seen(RowsRescaled), key=lambda one: (one.evaluates, one.step))
        if not found:
            raise NotEnoughData("no loader drew the same samples in three passes")
        first = found[0]
        others = ", ".join(one.loader for one in found[1:])
        also = f"; so do those of {others}" if others else ""
        return [
            self.finding(
                window,
                severity=Severity.ERROR,
                step=min(one.first_step for one in found),
                last_step=max(one.step for one in found),
                message=(
                    f"the same samples of {first.loader} come with other values in every pass: "
                    f"tensor {first.tensor} is multiplied by {first.scale:.3g} each time "
                    f"({first.samples} samples compared, up to pass {first.passes}): "
                    f"the stored data are changed in place{also}"
                ),
                evidence={
                    "scale": first.scale,
                    "offset": first.offset,
                    "samples": first.samples,
                    "passes": first.passes,
                },
                location=first.location,
                mode=(Mode.EVAL if first.evaluates else Mode.TRAIN).value,
            )
        ]
