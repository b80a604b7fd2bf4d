"""STR731: the batch norms of an averaged model have never seen a batch."""

from __future__ import annotations

from mothtrap.core.facts.evaluations import EvaluatedCopy
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.window import Window


@rule(
    "STR731",
    title="batch norms of a copy never updated",
    needs=[Need(facts=(EvaluatedCopy,))],
    explains=("labels_unrelated", "overfit", "overtraining"),
    passes=True,
)
def averaged_norms_initial(window: Window) -> Found | None:
    """The batch norms of an averaged model have never seen a batch.

    What it detects:
        A copy of the trained model, with averaged weights, that is evaluated although the running
        averages of all its batch norms have their initial values, 0 and 1.

    Why it matters:
        A moving average of the parameters does not contain the running averages of batch norms. In
        evaluation the copy normalizes with a mean of 0 and a variance of 1, so its outputs are
        meaningless, although its weights are good.

    Fires:
        Warning at an evaluation of a copy whose weights have changed since an earlier evaluation,
        if all its batch norms have their initial averages.

    Stays quiet:
        For copies whose weights never change, such as random or frozen networks. Before the second
        evaluation. For batch norms that use the statistics of the batch. For copies of a pretrained
        model, whose averages are not initial.

    What to do:
        - PyTorch: Copy the buffers together with the average of the parameters: `for a, b in
          zip(ema.buffers(), model.buffers()): a.copy_(b)`, or use
          `torch.optim.swa_utils.AveragedModel` with `use_buffers=True`.
        - PyTorch: Or compute the averages of the copy before you evaluate it:
          `torch.optim.swa_utils.update_bn(loader, ema)`.

    Example:
        for a, p in zip(ema.parameters(), model.parameters()):
            a.mul_(0.999).add_(p, alpha=0.001)
        for a, b in zip(ema.buffers(), model.buffers()):
            a.copy_(b)                                  # the running averages of batch norms

    References:
        https://docs.pytorch.org/docs/stable/optim.html#taking-care-of-batch-normalization
    """
    first: dict[str, EvaluatedCopy] = {}
    onset: dict[str, EvaluatedCopy] = {}
    for one in window.seen(EvaluatedCopy):
        before = first.setdefault(one.module, one)
        if one.initial_norms and one.digest != before.digest:
            onset.setdefault(one.module, one)
    for one in window.latest(EvaluatedCopy, by="module"):
        if one.initial_norms and one.module in onset:
            return Found.of(
                one,
                f"{one.module} is evaluated with averaged weights, but the running averages of all "
                f"its batch norms ({one.initial_norms}) have their initial values, a mean of 0 and "
                "a variance of 1",
                step=onset[one.module].step,
                evidence={"batch_norms": one.initial_norms},
            )
    return None
