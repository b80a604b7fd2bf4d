"""RUN907: a long training run saves no weights."""

from __future__ import annotations

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.record import CheckpointSaved
from mothtrap.core.facts.workers import WeightsSaved
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window


@frozen
class NoCheckpoint(Rule):
    """A long training run saves no weights.

    What it detects:
        A training run that has lasted long without writing a file with the model's weights or
        reading its `state_dict()`.

    Why it matters:
        If the job ends early (a crash, a full disk, a queue limit) or a step breaks the weights,
        all progress is lost.

    Fires:
        Info once a job has trained for `seconds` without saving weights.

    Stays quiet:
        After the first `torch.save`, `safetensors` file or `state_dict()` of a model. On ranks
        other than the first one, because the first saves for all.

    What to do:
        - PyTorch: Save the weights regularly: `torch.save({"model": model.state_dict(),
          "optimizer": optimizer.state_dict()}, path)`.
        - Keras: Save the weights regularly: `keras.callbacks.ModelCheckpoint`, or
          `keras.callbacks.BackupAndRestore`, which also saves the state of training.
        - Write to a new file and rename it, so that a crash while saving keeps the old file intact.

    Example:
        for epoch in range(100): train(model)
        for epoch in range(100): train(model); torch.save(model.state_dict(), f"{epoch}.pt")

    References:
        https://docs.pytorch.org/tutorials/beginner/saving_loading_models.html
    """

    code = "RUN907"
    needs = (
        Need(facts=(CheckpointSaved, WeightsSaved), each_step=True),
        Need(scalars=("loss",), optional=True),
    )

    seconds: float = threshold(3600.0, unit="seconds of training", source="chosen by hand")

    def check(self, window: Window) -> list[Finding]:
        """Check for saved weights once the training has run for long."""
        if window.worker:
            raise NotApplicable("the first rank saves for all ranks")
        if any(True for kind in (CheckpointSaved, WeightsSaved) for _ in window.seen(kind)):
            return []
        if window.trained_s < self.seconds:
            raise NotEnoughData(f"needs {self.seconds:,.0f} s of training")
        places = [series.location for series in window.scalars("loss") if series.location]
        return [
            self.finding(
                window,
                severity=Severity.INFO,
                step=0,
                last_step=window.last_step,
                message=f"no weights were saved in {window.total_steps:,} steps "
                f"({window.trained_s / 60:,.1f} minutes of training)",
                evidence={"value": window.trained_s, "limit": self.seconds},
                location=places[0] if places else None,
            )
        ]
