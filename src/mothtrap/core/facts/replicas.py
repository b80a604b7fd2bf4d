"""Facts about the replicas of a model that is trained by several workers."""

from __future__ import annotations

from mothtrap.core.fact import Fact


class ReplicaBatch(Fact, frozen=True, kw_only=True, tag=True):
    """Digest of the batch of a model whose gradients are averaged over workers.

    The workers are `size` in number, `lowest` is the lowest rank of them. `digest` is made of
    the tensors of all forwards of the step: equal ones mean equal bits (on an accelerator
    equal sums of the elements, read as integers). `location` is the line that called the model.
    `in_parts`: each worker holds a part of every layer of the model (tensor parallelism), so all
    of them need the same batch.
    """

    lowest: int
    size: int
    digest: str
    location: str | None = None
    in_parts: bool = False


class BatchRows(Fact, frozen=True, kw_only=True, tag=True):
    """Number of rows that the training forwards of a step got on this worker.

    Recorded at the first step, and whenever the number changes. `rank` is that of the worker,
    `location` the line that called the model.
    """

    rows: int
    rank: int
    location: str | None = None


class ReplicaDigests(Fact, frozen=True, kw_only=True, tag=True):
    """Digests of the parameters that must be the same on every worker, after a step.

    `digests` goes by module path (with the words of its scope where it holds a shard);
    equal digests mean equal bits.
    """

    digests: dict[str, str]


class UnwrappedDigests(Fact, frozen=True, kw_only=True, tag=True):
    """Digests of the parameters that no wrapper keeps equal on the workers, after a step.

    `digests` goes by module path. `initial` has the digests before the first step; only the
    first record of a process has them.
    """

    digests: dict[str, str]
    initial: dict[str, str] = {}


class BufferDigests(Fact, frozen=True, kw_only=True, tag=True):
    """Digests of the buffers that a checkpoint holds and no wrapper copies between workers.

    After a step, by module path. `norms` are the modules among them that normalize with running
    averages.
    """

    digests: dict[str, str]
    norms: tuple[str, ...] = ()


class WorkerSettings(Fact, frozen=True, kw_only=True, tag=True):
    """Settings of the trained models of a worker after a step.

    `rates` has the learning rate of each parameter group, by the name of its first parameter.
    `frozen` names the parameters that require no gradient. `tied` has the name of a parameter,
    and the earlier name of the same tensor. `names` is a digest of the names of all parameters.
    """

    rates: dict[str, float]
    names: str = ""
    frozen: tuple[str, ...] = ()
    tied: dict[str, str] = {}


class DropoutState(Fact, frozen=True, kw_only=True, tag=True):
    """State of the random generator before the first training forward of a step, as a digest.

    `modules` are the paths of modules that drop values in this forward, at most 8.
    """

    digest: str
    modules: tuple[str, ...]
    location: str | None = None


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
