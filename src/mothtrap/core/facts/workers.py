"""Facts about worker processes: start, pace, resumption and end."""

from __future__ import annotations

from msgspec import structs

from mothtrap.core.fact import Fact
from mothtrap.core.facts.data import SplitDrawn


class WorkerPace(Fact, frozen=True, kw_only=True, tag=True):
    """Durations of the last `steps` steps on a worker, as medians, in seconds.

    `own_s` is the part of a step outside of the backward pass, in which workers wait for each
    other.
    """

    steps: int
    step_s: float
    own_s: float


class WorkerStarted(Fact, frozen=True, kw_only=True, tag=True):
    """A process became a worker at its first optimizer step.

    `pid_ticks` distinguishes the process from a later process with the same pid; see `core.runs`.
    """

    rank: int
    world_size: int
    pid: int
    pid_ticks: int = 0
    host: str
    framework: str
    versions: dict[str, str]


class WorkerEnded(Fact, frozen=True, kw_only=True, tag=True):
    """A worker closed its run.

    `exception` is the uncaught exception that ended the script, `location` the line of the user's
    own code that raised it, and `traceback` the traceback that Python prints, without frames of
    mothtrap. `own_s` is mothtrap's time on the training thread, `capture_s` the part of it for
    statistics (the rest is the fixed cost of hooks), and `asked_s` the part of this for captures
    that the user requested. `wall_s` is the time from the first step to the end. `start_s` is the
    time of mothtrap's imports, `beside_s` the processor time of its threads, `close_s` the time to
    close the record after the training, and `saved_s` an estimate of the time saved on garbage
    collection. `at_s` is the Unix time of the end (0 = unknown).
    """

    steps: int
    own_s: float
    capture_s: float = 0.0
    asked_s: float = 0.0
    wall_s: float
    start_s: float = 0.0
    beside_s: float = 0.0
    close_s: float = 0.0
    saved_s: float = 0.0
    exception: str | None = None
    location: str | None = None
    traceback: str = ""
    at_s: float = 0.0

    def closed_after(self, seconds: float) -> WorkerEnded:
        """Return a copy that includes the time spent closing the record."""
        return structs.replace(self, close_s=seconds)


class WorkerLost(Fact, frozen=True, kw_only=True, tag=True):
    """The process of a worker ended before the worker closed its run.

    It was killed, crashed, or exited with `os._exit`. The process that writes on its behalf reports
    this; everything that it handed over is stored.
    """

    pid: int


class WeightsSaved(Fact, frozen=True, kw_only=True, tag=True):
    """A model's state was requested, as for a checkpoint.

    `step` is the number of steps for which the weights were trained, `digest` is their digest, and
    `evaluations` is the number of evaluation forward passes so far.
    """

    root: str
    digest: str
    evaluations: int = 0


class RestoredNothing(Fact, frozen=True, kw_only=True, tag=True):
    """`load_state_dict` received a state whose tensors are the module's own.

    `kept_step` is the step before which the state was saved, and `taken_at` the line that saved it.
    `step` is the number of steps for which the weights have been trained since the beginning.
    `location` is the line that loaded it.
    """

    module: str
    kept_step: int
    taken_at: str | None = None
    location: str | None = None


class WeightsReturned(Fact, frozen=True, kw_only=True, tag=True):
    """`load_state_dict` gave a model the weights that it had after `kept_step` steps.

    Its state was requested then. `step` is the number of steps for which the weights have been
    trained since the beginning. `location` is the line that loaded it.
    """

    module: str
    kept_step: int
    location: str | None = None


class UnmatchedState(Fact, frozen=True, kw_only=True, tag=True):
    """`load_state_dict(strict=False)` received a state whose names hardly match the module's.

    `names` is the number of parameters and buffers of the module, `given` the number of names in
    the state, and `shared` the number of common names. `own` is a name of the module, and `other`
    the most similar name in the state. `location` is the line that loaded it.
    """

    module: str
    names: int
    given: int
    shared: int
    own: str
    other: str
    location: str | None = None


class Resumed(Fact, frozen=True, kw_only=True, tag=True):
    """A restarted job resumes at `step`; `evidence` explains how this is known.

    `evaluations` is the number of evaluation forward passes before that step. `splits`: the data on
    which earlier attempts trained, and which they evaluated. `loaded`: its weights were loaded.
    `losses`: the last values of each loss series before that step, in order, at most 16. If the
    weights were loaded, `first_rates` are the learning rates of the first steps of the job, at most
    16, by optimizer, and `last_rates` those of the last step before.
    """

    evidence: str
    evaluations: int = 0
    splits: tuple[SplitDrawn, ...] = ()
    loaded: bool = False
    losses: dict[str, tuple[float, ...]] = {}
    first_rates: dict[str, tuple[float, ...]] = {}
    last_rates: dict[str, float] = {}


class WeightsNotRestored(Fact, frozen=True, kw_only=True, tag=True):
    """A restarted job has restored these optimizers, but has loaded no weights.

    It continues at `step`. `untouched`: the weights look like the framework's initial values; None
    = unknown.
    """

    optimizers: tuple[str, ...]
    untouched: bool | None = None


class OptimizersNotRestored(Fact, frozen=True, kw_only=True, tag=True):
    """A restarted job has loaded its weights, but these optimizers start without their averages.

    They use momentum, or averages of squares. The weights had been trained for `step` steps.
    """

    optimizers: tuple[str, ...]
