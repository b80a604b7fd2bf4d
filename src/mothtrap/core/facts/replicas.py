"""Facts about the replicas of a model that is trained by several workers."""

from __future__ import annotations

from mothtrap.core.fact import Fact


class ReplicaBatch(Fact, frozen=True, kw_only=True, tag=True):
    """Digest of the batch of a model whose gradients are averaged over workers.

    The workers are `size` in number, `lowest` is the lowest rank of them. `digest` is made of
    the tensors of all forwards of the step: equal ones mean equal bits (on an accelerator
    equal sums of the elements, read as integers). `location` is the line that called the model.
    """

    lowest: int
    size: int
    digest: str
    location: str | None = None


class ReplicaDigests(Fact, frozen=True, kw_only=True, tag=True):
    """Digests of the parameters that must be the same on every worker, after a step.

    `digests` goes by module path (with the words of its scope where it holds a shard);
    equal digests mean equal bits.
    """

    digests: dict[str, str]


class WrapperBypassed(Fact, frozen=True, kw_only=True, tag=True):
    """A model trained without the wrapper that averages its gradients over workers.

    `called` is the module whose forward ran instead of the wrapper's; empty when the
    wrapper's own forwards all ran with the averaging switched off. `steps` counts such
    steps so far, this one included.
    """

    wrapper: str
    called: str
    steps: int
    world_size: int
    location: str | None = None
