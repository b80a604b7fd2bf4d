"""Facts about worker processes: beginning, pace, resumption and end."""

from __future__ import annotations

from msgspec import structs

from mothtrap.core.fact import Fact
from mothtrap.core.facts.data import SplitDrawn


class WorkerPace(Fact, frozen=True, kw_only=True, tag=True):
    """Durations of the last `steps` steps on a worker, as medians, in seconds.

    `own_s` is what of a step lies outside of backward, where workers wait for each other.
    """

    steps: int
    step_s: float
    own_s: float


class WorkerStarted(Fact, frozen=True, kw_only=True, tag=True):
    """A process became a worker at its first optimizer step.

    `pid_ticks` tells the process from a later one with its pid; see `core.runs`.
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

    `exception` is the uncaught one that ended the script, `location` the line of the user's own
    code where it arose, `traceback` is what Python prints, without frames of mothtrap.
    `own_s` is mothtrap's time on the training thread, `capture_s` the part of it that
    went into statistics (the rest is the fixed cost of hooks), `asked_s` the part of this that
    went into captures that a user asked for, `wall_s` the time from the first step to the end.
    `start_s` is what the imports of mothtrap took, `beside_s` the processor time of its threads,
    `close_s` what it took to close the record after the training, `saved_s` an estimate of the
    time that garbage collection was shorter by. `at_s` is the Unix time of the end (0: not known).
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
        """Return the same with the time that it took to close the record."""
        return structs.replace(self, close_s=seconds)


class WorkerLost(Fact, frozen=True, kw_only=True, tag=True):
    """The process of a worker was gone before it had closed its run.

    It was killed, crashed, or left by `os._exit`. The process that writes for it says so; all that
    it handed over is stored.
    """

    pid: int


class WeightsSaved(Fact, frozen=True, kw_only=True, tag=True):
    """The state of a model was asked for, as for a checkpoint.

    `step` counts the steps that the weights have taken, `digest` is that of the weights;
    `evaluations` are the forwards of evaluations so far.
    """

    root: str
    digest: str
    evaluations: int = 0


class RestoredNothing(Fact, frozen=True, kw_only=True, tag=True):
    """`load_state_dict` was given a state whose tensors are the module's own.

    `kept_step` is the number of steps before which the state was taken, `taken_at` the line that
    took it. `step` counts the steps that the weights have taken since the beginning. `location` is
    the line that loaded it.
    """

    module: str
    kept_step: int
    taken_at: str | None = None
    location: str | None = None


class Resumed(Fact, frozen=True, kw_only=True, tag=True):
    """A restarted job goes on at `step`; `evidence` says how that is known.

    `evaluations` are the forwards of evaluations that came before that step. `splits`: the data
    that earlier attempts trained on, and evaluated. `loaded`: its weights are saved ones.
    `losses`: the last values of each loss series before that step, in order, at most 16.
    """

    evidence: str
    evaluations: int = 0
    splits: tuple[SplitDrawn, ...] = ()
    loaded: bool = False
    losses: dict[str, tuple[float, ...]] = {}


class OptimizersNotRestored(Fact, frozen=True, kw_only=True, tag=True):
    """A restarted job has loaded its weights, but these optimizers begin without their averages.

    They keep momentum, or averages of squares. The weights had been trained for `step` steps.
    """

    optimizers: tuple[str, ...]
