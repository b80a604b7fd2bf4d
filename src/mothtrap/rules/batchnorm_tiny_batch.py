"""STR705: batch norms get too few samples to estimate a mean."""

from __future__ import annotations

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.evaluations import EvaluationNorms, NormBatches, TrainingMode
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.steps import Mode
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._effects import NOT_FINITE
from mothtrap.rules._losses import has_players


@frozen
class BatchnormTinyBatch(Rule):
    """Batch norms get too few samples to estimate a mean.

    What it detects:
        Training batches of one or a few samples at a batch norm, or running statistics for
        evaluation that come from a few samples.

    Why it matters:
        In training, a batch norm uses the mean and standard deviation of its batch. With a single
        sample, this removes the level and scale of the sample. In evaluation the batch norm uses
        running averages, so later layers get values that they were not trained on.

    Fires:
        When a batch norm gets one sample in more than `share` of at least `forwards` observed
        training forward calls: error, or a warning in a GAN, because some GANs do so on purpose.
        Warning for fewer than four samples. Warning also when the running statistics of an
        evaluation effectively average fewer than `worth` rows: with a high momentum they mostly
        come from the latest batch, and that batch was small.

    Stays quiet:
        For a small last batch, unless the momentum is high. For batch norms in evaluation mode,
        synchronized batch norms, and batch norms over rows of several samples. For other
        normalization layers.

    What to do:
        - Use a larger batch. Gradient accumulation does not help, because the batch norm sees
          each micro-batch separately.
        - PyTorch: Lower the momentum: in PyTorch it is the weight of the latest batch, by default
          0.1, which other frameworks call 0.9.
        - Keras: Raise the momentum, which is the weight of the old average: 0.99 by default.
        - PyTorch: Drop a small last batch: `DataLoader(..., drop_last=True)`.
        - Keras: Drop a small last batch: `dataset.batch(size, drop_remainder=True)`.
        - PyTorch: Replace the batch norms with `nn.GroupNorm` or `nn.LayerNorm`.
        - Keras: Replace the batch norms with `GroupNormalization` or `LayerNormalization`.
        - PyTorch: With several workers, use `nn.SyncBatchNorm.convert_sync_batchnorm(model)`.

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

    forwards: int = threshold(8, unit="training forward calls", source="chosen by hand")
    share: float = threshold(0.5, unit="of the observed forward calls", source="chosen by hand")
    worth: float = threshold(4.0, unit="rows, weighted by momentum", source="chosen by hand")

    def check(self, window: Window) -> list[Finding]:
        """Check running statistics in evaluations, then the batch norm with the fewest samples."""
        found = self._evaluated(window)
        return [found] if found is not None else self._trained(window)

    def _trained(self, window: Window) -> list[Finding]:
        latest = {batches.module: batches for batches in window.seen(NormBatches)}
        if not latest:
            modes = list(window.seen(TrainingMode))
            if modes and not any(mode.norms for mode in modes):
                raise NotApplicable("no trained model has batch norms")
            raise NotEnoughData("no batch norm was observed in training")
        found = [one for one in latest.values() if one.forwards >= self.forwards]
        if not found:
            raise NotEnoughData(f"fewer than {self.forwards} forward calls were observed")
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
                    f"forward calls (most often {worst.samples})"
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
        """Find running statistics that are worth too few rows."""
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
                f"batch norm {first.module} has momentum {first.momentum:g}, so evaluation mostly "
                f"uses the statistics of the last training batch, which had {first.last_rows} "
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
    """Return the size of a batch whose mean is as precise as the running mean.

    The weights of the batches are m, m(1-m), m(1-m)^2 ...; all but the latest are assumed to have
    the usual size.
    """
    m = one.momentum
    variance = m**2 / max(1, one.last_rows)
    if m < 1:
        variance += m * (1 - m) ** 2 / (2 - m) / max(1, one.rows)
    return 1 / variance
