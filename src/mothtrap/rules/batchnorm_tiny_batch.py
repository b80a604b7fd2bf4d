"""STR705: batch norms get too few samples to know a mean."""

from __future__ import annotations

from dataclasses import dataclass

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.evaluations import EvaluationNorms, NormBatches, TrainingMode
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.steps import Mode
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._effects import NOT_FINITE
from mothtrap.rules._losses import has_players


@dataclass(frozen=True)
class BatchnormTinyBatch(Rule):
    """Batch norms get too few samples to know a mean.

    What it detects:
        Batches of one or a handful of samples in front of a batch norm in training, or a
        handful of samples from which its statistics for evaluation come.

    Why it matters:
        A batch norm in training takes mean and deviation from its batch. Of one sample they
        are that sample's own: whatever tells samples apart in level or scale is taken out,
        and in evaluation, with averages in their place, the model sees other values
        than it was trained on.

    Fires:
        Over at least `forwards` training forwards that were looked at, when more than `share`
        of them gave a batch norm one sample (error; warning in a GAN, where some train so
        on purpose), or fewer than four (warning). Warning too when running statistics are
        worth fewer than `worth` rows in an evaluation: with a high momentum they are those of
        the latest batch, and that one was small.

    Stays quiet:
        A small last batch, unless the momentum is high. Batch norms in evaluation mode,
        those that share statistics over workers, and those that are applied to rows of
        several samples at once. Other kinds of normalization.

    What to do:
        - Use a larger batch; gradient accumulation does not help, the norm sees each part alone.
        - PyTorch: Lower the momentum: in PyTorch it is the weight of the latest batch, by default
          0.1, which other frameworks call 0.9.
        - Keras: Raise the momentum, which is the weight of the past: 0.99 by default.
        - PyTorch: Drop the last batch where it is small: `DataLoader(..., drop_last=True)`.
        - Keras: Drop the last batch where it is small: `dataset.batch(size, drop_remainder=True)`.
        - PyTorch: Replace the batch norms by `nn.GroupNorm` or `nn.LayerNorm`.
        - Keras: Replace the batch norms by `GroupNormalization` or `LayerNormalization`.
        - PyTorch: Over several workers, use `nn.SyncBatchNorm.convert_sync_batchnorm(model)`.

    Example:
        loader = DataLoader(data, batch_size=1)        # in front of nn.BatchNorm2d
        loader = DataLoader(data, batch_size=32)

    References:
        Wu, He 2018, Group Normalization, https://arxiv.org/abs/1803.08494, figure 1
    """

    code = "STR705"
    title = "BatchNorm on tiny batches"
    needs = (
        Need(facts=(NormBatches,)),
        Need(facts=(TrainingMode, EvaluationNorms), scalars=("loss",), optional=True),
    )
    explains = (
        *NOT_FINITE,
        "activation_growth",
        "exploding_gradient",
        "gradient_spike",
        "labels_unrelated",
        "loss_not_decreasing",
        "loss_diverging",
        "loss_oscillating",
        "loss_spike",
        "overfit",
        "overtraining",
    )

    forwards: int = threshold(8, unit="training forwards", source="chosen by hand")
    share: float = threshold(0.5, unit="of the forwards looked at", source="chosen by hand")
    worth: float = threshold(4.0, unit="rows, weighted by momentum", source="chosen by hand")

    def check(self, window: Window) -> list[Finding]:
        """Judge the batch norm that gets the fewest samples, then those of evaluations."""
        found = self._evaluated(window)
        return [found] if found is not None else self._trained(window)

    def _trained(self, window: Window) -> list[Finding]:
        latest = {batches.module: batches for batches in window.seen(NormBatches)}
        if not latest:
            modes = list(window.seen(TrainingMode))
            if modes and not any(mode.norms for mode in modes):
                raise NotApplicable("no model that is trained has batch norms")
            raise NotEnoughData("no batch norm was looked at in training")
        found = [one for one in latest.values() if one.forwards >= self.forwards]
        if not found:
            raise NotEnoughData(f"fewer than {self.forwards} forwards were looked at")
        worst = max(found, key=lambda one: (one.single / one.forwards, one.few / one.forwards))
        if worst.few <= self.share * worst.forwards:
            return []
        single = worst.single > self.share * worst.forwards
        return [
            self.finding(
                window,
                severity=(
                    Severity.ERROR if single and not has_players(window) else Severity.WARNING
                ),
                step=0,
                last_step=worst.step,
                count=worst.forwards,
                layers=(worst.module,),
                message=(
                    f"{worst.module} got {'one sample' if single else 'fewer than 4 samples'} in "
                    f"{worst.single if single else worst.few} of {worst.forwards} training "
                    f"forwards (most often {worst.samples})"
                ),
                evidence={
                    "samples": worst.samples,
                    "single": worst.single,
                    "few": worst.few,
                    "forwards": worst.forwards,
                },
                location=worst.location,
            )
        ]

    def _evaluated(self, window: Window) -> Finding | None:
        """Judge the rows that running statistics are worth."""
        poor = [one for one in window.seen(EvaluationNorms) if _rows_worth(one) < self.worth]
        if not poor:
            return None
        first, last = poor[0], poor[-1]
        larger, momentum, drop, *others = self.fixes(window)
        return self.finding(
            window,
            severity=Severity.WARNING,
            step=first.step,
            last_step=last.step,
            count=len(poor),
            mode=Mode.EVAL.value,
            layers=(first.module,),
            message=(
                f"batch norm {first.module} has momentum {first.momentum:g}, so evaluation uses "
                f"the statistics of the last training batch only, which had {first.last_rows} "
                f"row{'s' * (first.last_rows != 1)} instead of {first.rows}"
            ),
            evidence={
                "momentum": first.momentum,
                "last_rows": first.last_rows,
                "rows": first.rows,
                "worth": _rows_worth(first),
                "limit": self.worth,
            },
            fixes=(momentum, drop, larger, *others),
            location=first.location,
        )


def _rows_worth(one: EvaluationNorms) -> float:
    """Return the size of a batch whose mean is as certain as the running mean.

    Batches weigh m, m(1-m), m(1-m)^2 ...; all but the latest are taken to have the usual size.
    """
    m = one.momentum
    variance = m**2 / max(1, one.last_rows)
    if m < 1:
        variance += m * (1 - m) ** 2 / (2 - m) / max(1, one.rows)
    return 1 / variance
