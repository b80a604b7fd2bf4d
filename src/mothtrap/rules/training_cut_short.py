"""OPT623: settings of a trainer leave out most batches or steps."""

from __future__ import annotations

from mothtrap.core.errors import NotApplicable
from mothtrap.core.facts.trainers import TrainerSettings
from mothtrap.core.findings import EvidenceValue
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window


@rule(
    "OPT623",
    needs=[Need(facts=(TrainerSettings,))],
    explains=(
        *("overfit", "overtraining", "learning_rate_too_low", "memorized_rows"),
        *("repeated_batch", "loss_not_decreasing", "too_little_data", "stuck_at_chance"),
        "labels_unrelated",
    ),
)
def training_cut_short(
    window: Window,
    *,
    share: float = threshold(0.2, unit="of the training batches", source="chosen by hand"),
    batches: int = threshold(8, unit="batches of an epoch", source="chosen by hand"),
    epochs: int = threshold(2, unit="epochs", source="chosen by hand"),
) -> Found | None:
    """Settings of a trainer leave out most batches or steps.

    What it detects:
        Settings for a quick test that were left on in a longer training run, such as
        `limit_train_batches` of Lightning. Also a trainer that accumulates the gradients of all
        batches of an epoch, so that an epoch has a single step.

    Why it matters:
        The model trains on a few rows again and again, or for only a few steps. The epochs look
        complete, but the loss hardly falls, or only on these rows.

    Fires:
        Warning when a run of at least `epochs` epochs uses at most `share` of the training batches.
        Warning when a trainer accumulates at least as many batches as an epoch has, if it has
        `batches` or more. A note for other settings that leave out batches.

    Stays quiet:
        Without such settings. When the number of batches is unknown.

    What to do:
        - Remove the setting for the real run.
        - Accumulate fewer batches: `accumulate_grad_batches=1`, or
          `gradient_accumulation_steps=1` in Hugging Face's Trainer.

    Example:
        Trainer(max_epochs=50, limit_train_batches=0.01)
        Trainer(max_epochs=50)

    References:
        https://lightning.ai/docs/pytorch/stable/debug/debugging_basic.html
    """
    seen = list(window.seen(TrainerSettings))
    if not seen:
        raise NotApplicable("no trainer runs the loop")
    for one in seen:
        evidence: dict[str, EvidenceValue] = {
            "batches": one.batches,
            "accumulates": one.accumulates,
            "share": one.share,
        }
        if one.batches is not None and one.accumulates >= one.batches >= batches:
            return Found.of(
                one,
                f"{one.trainer} accumulates the gradients of {one.accumulates} batches, and an "
                f"epoch has only {one.batches}: there is one step per epoch",
                evidence=evidence,
                fixes=(1,),
            )
        if not one.leaves_out:
            continue
        few = one.share is not None and one.share <= share
        again = one.epochs is None or one.epochs >= epochs
        part = (
            f", which uses {one.share:.1%} of the training batches (limit {share:.0%})"
            if few
            else ", which leaves out training batches"
        )
        return Found.of(
            one,
            f"{one.trainer} runs with `{one.leaves_out}`{part}",
            severity="warning" if few and again else "info",
            evidence=evidence,
            fixes=(0,),
        )
    return None
