"""Facts about the replicas of a model that is trained by several workers."""

from __future__ import annotations

from mothtrap.core.fact import Fact


class ReplicaBatch(Fact, frozen=True, kw_only=True, tag=True):
    """Digest of a batch for a model whose gradients are averaged across workers.

    There are `size` workers, of which `lowest` is the lowest rank. `digest` covers the tensors of
    all forward passes of the step: equal digests mean equal bits (on an accelerator, equal sums of
    the elements read as integers). `location` is the line that called the model.
    `in_parts`: each worker has a part of every layer of the model (tensor parallelism), so all of
    them need the same batch.
    """

    lowest: int
    size: int
    digest: str
    location: str | None = None
    in_parts: bool = False


class BatchRows(Fact, frozen=True, kw_only=True, tag=True):
    """Number of rows in the training forward passes of a step on this worker.

    Recorded at the first step, and whenever the number changes. `rank` is the worker's rank,
    `location` the line that called the model.
    """

    rows: int
    rank: int
    location: str | None = None


class OrderRepeated(Fact, frozen=True, kw_only=True, tag=True):
    """A pass over the training data with a `DistributedSampler` has the order of the pass before.

    The epoch and the seed of the sampler of `loader` have been the same in the last `passes`
    passes, between which the model was trained. `epoch` is this epoch, and `location` the line that
    iterates over the loader.
    """

    loader: str
    epoch: int
    passes: int
    location: str | None = None


class ReplicaDigests(Fact, frozen=True, kw_only=True, tag=True):
    """Digests, after a step, of the parameters that must be the same on every worker.

    `digests` is by module path (with the scope if the worker holds a shard); equal digests mean
    equal bits.
    """

    digests: dict[str, str]


class UnwrappedDigests(Fact, frozen=True, kw_only=True, tag=True):
    """Digests, after a step, of the parameters that no wrapper keeps equal across workers.

    `digests` is by module path. `initial` contains the digests before the first step; only the
    first record of a process has them. `gradients` is the digest of their gradients just before
    the step; empty if they have none. `collectives` is the number of collective operations between
    the first forward of the step and the call of the optimizer; None = unknown. `begun` contains
    the digest of some values of one parameter at the beginning of each step since the last record.
    `location` is the line that calls the model.
    """

    digests: dict[str, str]
    initial: dict[str, str] = {}
    gradients: str = ""
    collectives: int | None = None
    begun: dict[int, str] = {}
    location: str | None = None


class BufferDigests(Fact, frozen=True, kw_only=True, tag=True):
    """Digests of buffers that are saved in checkpoints but that no wrapper copies between workers.

    After a step, by module path. `norms` are the modules among them that normalize with running
    averages.
    """

    digests: dict[str, str]
    norms: tuple[str, ...] = ()


class WorkerSettings(Fact, frozen=True, kw_only=True, tag=True):
    """Settings of the trained models of a worker after a step.

    `rates` contains the learning rate of each parameter group, by the name of its first parameter.
    `frozen` lists parameters that do not require a gradient. `tied` maps a parameter to the earlier
    name of the same tensor. `names` is a digest of the names of all parameters.
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
    """A model trained without the wrapper that averages its gradients across workers.

    `called` is the module that was called instead of the wrapper; empty if the wrapper was always
    called with averaging switched off. `steps` is the number of such steps so far, including this
    one.
    """

    wrapper: str
    called: str
    steps: int
    world_size: int
    location: str | None = None
