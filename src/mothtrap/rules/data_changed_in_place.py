"""DAT519: the stored data change in place in every epoch."""

from __future__ import annotations

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.data import LoaderBegan, RowsRescaled
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.steps import Mode
from mothtrap.core.window import Window
from mothtrap.rules._effects import NOT_FINITE, UNLEARNED


@frozen
class DataChangedInPlace(Rule):
    """The stored data change in place in every epoch.

    What it detects:
        Samples of a loader whose values in each epoch are the values of the previous epoch times
        a constant plus a constant, equal for all samples.

    Why it matters:
        An in-place transform is applied again in every epoch. The data grow or shrink by the same
        factor each time, and the model trains on different data than it is evaluated on.

    Fires:
        Error when at least eight samples change by the same factor from one epoch to the next,
        twice in a row. The change of each sample must be linear, to within 0.001 standard
        deviations.

    Stays quiet:
        For random augmentation, which differs from sample to sample. For unchanged data. For
        loaders without indices. If each epoch has a different factor.

    What to do:
        - Transform a copy: `image.sub(mean).div(std)` or `image.clone()`, not `sub_` and `div_`.
          In NumPy, `image = image / 255`, not `image /= 255`.
        - Transform all data once before training, and not each time a sample is loaded.

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
        """Report the training loader first."""
        found = sorted(window.seen(RowsRescaled), key=lambda one: (one.evaluates, one.step))
        if not found:
            raise NotEnoughData("no loader drew the same samples in three epochs")
        first = found[0]
        others = ", ".join(one.loader for one in found[1:])
        also = f"; so do the samples of {others}" if others else ""
        return [
            self.finding(
                window,
                severity=Severity.ERROR,
                step=min(one.first_step for one in found),
                last_step=max(one.step for one in found),
                message=(
                    f"the samples of {first.loader} change in place in every epoch: tensor "
                    f"{first.tensor} is multiplied by {first.scale:.3g} each time "
                    f"({first.samples} samples compared, up to epoch {first.passes}){also}"
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
