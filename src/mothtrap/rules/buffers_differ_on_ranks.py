"""DST956: ranks that train one model have different buffers."""

from __future__ import annotations

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.replicas import BufferDigests, ReplicaDigests, UnwrappedDigests
from mothtrap.core.facts.workers import WorkerStarted
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._replicas import differences, trains_one_model, world_size


@rule(
    "DST956",
    title="buffers differ on ranks",
    needs=[
        Need(facts=(BufferDigests, WorkerStarted)),
        Need(facts=(ReplicaDigests, UnwrappedDigests), optional=True),
    ],
    compares=True,
)
def buffers_differ_on_ranks(
    window: Window,
    *,
    steps: int = threshold(
        2, unit="recorded steps", source="chosen by hand: ignores a single reset"
    ),
) -> Found | None:
    """Ranks that train one model have different buffers.

    What it detects:
        After the same step, buffers that are saved in checkpoints differ between ranks that average
        their gradients. Buffers are values that a model changes without a gradient, such as the
        running averages of a batch norm, or the codes of a quantizer.

    Why it matters:
        The ranks evaluate different models. A checkpoint contains the buffers of only one rank,
        which saw only its part of the data.

    Fires:
        Warning when buffers differ after `steps` recorded steps. Info if only the running averages
        of normalizing layers differ, since many training scripts accept that.

    Stays quiet:
        Buffers that `DistributedDataParallel` copies before each forward pass, as it does by
        default. `SyncBatchNorm`. Buffers that are not saved in checkpoints. Ranks that do not
        average gradients.

    What to do:
        - Average the buffers over the ranks when you change them: `dist.all_reduce(buffer)`.
        - PyTorch: Convert batch norms: `nn.SyncBatchNorm.convert_sync_batchnorm(model)`.
        - Keep the default of `forward_sync_buffers` (`broadcast_buffers` before PyTorch 2.13) in
          `DistributedDataParallel`.
        - Average the running averages over the ranks before each evaluation and checkpoint.

    Example:
        model = DistributedDataParallel(net, forward_sync_buffers=False)   # net has batch norms

    References:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.SyncBatchNorm.html
    """
    parts = (window, *window.peers)
    if not window.peers and world_size(window) < 2:
        raise NotApplicable("the job has one rank")
    told = {part.worker: list(part.seen(BufferDigests)) for part in parts}
    if window.peers and not any(told.values()) and window.total_steps > 1:
        raise NotApplicable("no trained model has buffers that could differ between ranks")
    digests = {
        worker: {seen.step: seen.digests for seen in own} for worker, own in told.items() if own
    }
    found = differences(digests)
    if not found.compared:
        raise NotEnoughData("no step has buffer digests from two ranks")
    if not trains_one_model(window):
        raise NotApplicable("the ranks do not average the gradients of one model")
    if len(found.steps) < steps:
        return None
    norms = {name for own in told.values() for seen in own for name in seen.norms}
    others = tuple(name for name in found.layers if name not in norms)
    layers = others or found.layers
    of = "the buffers" if others else "the running averages"
    more = f" and {len(layers) - 1} more modules" if len(layers) > 1 else ""
    return Found(
        severity="warning" if others else "info",
        step=found.onset,
        last_step=found.steps[-1],
        count=len(found.steps),
        layers=layers,
        workers=found.odd,
        message=f"{of} of {layers[0]}{more} differ between ranks",
        evidence={"modules": len(found.layers), "modules_compared": found.compared},
        fixes=None if others else (1, 2, 3),
    )
