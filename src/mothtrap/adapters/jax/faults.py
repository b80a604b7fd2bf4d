"""Faults that occur only in JAX programs: reused keys and unused results."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any, Final
from weakref import WeakKeyDictionary

import jax
import numpy as np

from mothtrap.adapters.jax.functions import Layout, Traced
from mothtrap.adapters.jax.keys import UNKNOWN
from mothtrap.adapters.jax.norm_modes import OF_NORMS, report_training
from mothtrap.adapters.jax.programs import Program
from mothtrap.core.adapters import Job
from mothtrap.core.facts.compiling import HostCallback, KeyReused, UpdateDropped, ValueReadOnce
from mothtrap.core.facts.evaluations import BootstrappedTargets
from mothtrap.core.facts.functions import FunctionTraced
from mothtrap.core.facts.policies import UnreadEnds
from mothtrap.tracing.describe import episode_ends
from mothtrap.tracing.source import frames
from mothtrap.tracing.source.mentions import only_call

OF_PROGRAMS: Final = (KeyReused, HostCallback)
OF_CALLS: Final = (
    *(UpdateDropped, FunctionTraced, UnreadEnds, BootstrappedTargets, ValueReadOnce),
    *OF_NORMS,
)
NORMS_AT: Final = 12
"""Number of the call of a step function at which the mode of its batch norms is reported."""
KEYS_READ: Final = 40
"""Number of calls in which keys are compared by value: a script may make an equal key each time."""
MAX_KEYS: Final = 4096
"""Maximum number of values of a key that are compared: a batch has a key for each row."""
READ_AT: Final = 3
"""Number of the call of a step function at which the source of the script is read."""
REPORTED_AT: Final = (8, 32, 128, 512)
"""Consecutive calls with the same key, or the same weights, after which this is reported."""
MANY_TRACES: Final = 4
TRACES_REPORTED_AT: Final = (8, 16, 32, 64, 128, 256, 512, 1024)


class _Given:
    """An argument of a call, for the comparison with the argument of the next call.

    Args:
        value: the argument.
        by_value: compare the values of small arrays, not only their identity.
    """

    def __init__(self, value: Any, *, by_value: bool) -> None:
        self._value = value
        self._read = _read(value) if by_value else None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Given):
            return NotImplemented
        if self._value is other._value:
            return True
        ours, theirs = self._read, other._read
        return ours is not None and theirs is not None and np.array_equal(ours, theirs)

    __hash__ = None  # type: ignore[assignment]


class _Counts:
    def __init__(self) -> None:
        self.calls = self.traces = self.looks = 0
        self.given: dict[str, list[Any]] = {}
        self.stale: dict[str, int] = {}
        self.keys: dict[frozenset[int], list[_Given]] = {}
        self.same: dict[frozenset[int], int] = {}

    def running(self, name: str, leaves: Sequence[Any], places: Iterable[int]) -> int:
        """Return the number of consecutive calls with the same arrays under a name."""
        given = [leaves[index] for index in places if index < len(leaves)]
        known = self.given.get(name, [])
        same = bool(given) and len(given) == len(known) and all(map(operator.is_, given, known))
        self.given[name], self.stale[name] = given, self.stale.get(name, 0) + 1 if same else 1
        return self.stale[name]


class Faults:
    """Detects faults in the calls to functions that run training steps.

    Args:
        job: receives the facts.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._counts: WeakKeyDictionary[Traced, _Counts] = WeakKeyDictionary()
        self._programs: WeakKeyDictionary[Traced, Program] = WeakKeyDictionary()

    def traced(self, traced: Traced, layout: Layout) -> None:
        """Count another trace of a function that the script calls."""
        counts = self._counts.setdefault(traced, _Counts())
        counts.traces += 1
        if counts.traces in TRACES_REPORTED_AT:
            self._job.fact(
                FunctionTraced(
                    step=self._job.now.step,
                    function=layout.function,
                    traces=counts.traces,
                    calls=counts.calls + 1,
                    location=layout.location,
                )
            )

    def is_unsettled(self, traced: Traced) -> bool:
        """Return whether a function is retraced so often that its shadow would be retraced, too."""
        counts = self._counts.get(traced)
        return counts is not None and counts.traces > max(MANY_TRACES, counts.calls // 20)

    def learned(self, traced: Traced, layout: Layout, program: Program) -> None:
        """Process the static facts of a function."""
        if traced in self._programs:
            return
        self._programs[traced] = program
        step = self._job.now.step
        self._job.stood_ready(OF_PROGRAMS)
        if program.callbacks:
            self._job.fact(
                HostCallback(
                    step=step,
                    function=layout.function,
                    callbacks=program.callbacks,
                    location=program.callbacks[0],
                )
            )
        for lines in program.draws.twice():
            self._job.fact(
                KeyReused(
                    step=step, function=layout.function, draws=tuple(lines), location=lines[0]
                )
            )

    def called(self, traced: Traced, layout: Layout, inputs: Any) -> None:
        """Process a call to a function that runs training steps."""
        counts = self._counts.setdefault(traced, _Counts())
        counts.calls += 1
        self._job.stood_ready(OF_CALLS)
        leaves = jax.tree_util.tree_leaves(inputs)
        if counts.calls == READ_AT:
            step = self._job.now.step
            moves = episode_ends.bootstrapped(step, counts.calls)
            for fact in (episode_ends.of_running_files(step), moves):
                if fact is not None:
                    self._job.fact(fact)
        self._look_at_weights(counts, layout, leaves)
        program = self._programs.get(traced)
        if program is not None:
            self._look_at_program(counts, layout, inputs, leaves, program)

    def gradients_called(self, traced: Traced, layout: Layout, inputs: Any) -> None:
        """Process a call to a function whose gradients the script applies itself."""
        counts = self._counts.setdefault(traced, _Counts())
        counts.calls += 1
        program = self._programs.get(traced)
        if program is not None:
            leaves = jax.tree_util.tree_leaves(inputs)
            self._look_at_program(counts, layout, inputs, leaves, program)

    def _look_at_program(
        self,
        counts: _Counts,
        layout: Layout,
        inputs: Any,
        leaves: Sequence[Any],
        program: Program,
    ) -> None:
        self._job.stood_ready(OF_PROGRAMS)
        self._look_at_keys(counts, layout, leaves, program)
        if counts.calls == NORMS_AT:
            about = layout, inputs, program.read
            self._job.contain_part("batch norms", report_training, self._job, *about)

    def _look_at_weights(self, counts: _Counts, layout: Layout, leaves: Sequence[Any]) -> None:
        """Count consecutive calls with the same weights, or with new weights and old states."""
        calls = counts.running("", leaves, layout.weights.values())
        if layout.lost:
            calls = counts.calls
        stale = {n: counts.running(n, leaves, places) for n, places in layout.states.items()}
        # a compiled loop that gets the same weights and states again repeats a training run
        if not layout.repeats or any(number < calls for number in stale.values()):
            self._report(layout, calls)
        for argument, number in stale.items():
            if number > calls:
                self._report(layout, number, state=argument)
        if layout.lost_state:
            self._report(layout, counts.calls, state=layout.lost_state)

    def _report(self, layout: Layout, calls: int, state: str = "") -> None:
        if calls not in REPORTED_AT:
            return
        lost = layout.lost if not state else ""
        if state and state == layout.lost_state:
            lost = "not returned"
        self._job.fact(
            UpdateDropped(
                step=self._job.now.step,
                function=layout.function,
                calls=calls,
                why=lost,
                state=state,
                location=_place(layout) if lost else frames.user_location(),
            )
        )

    def _look_at_keys(
        self, counts: _Counts, layout: Layout, leaves: Sequence[Any], program: Program
    ) -> None:
        counts.looks += 1
        by_value = counts.looks <= KEYS_READ
        for places, line in program.draws.arguments.items():
            if max(places, default=0) >= len(leaves):
                continue
            given = [_Given(leaves[index], by_value=by_value) for index in sorted(places)]
            running = places in counts.keys and counts.keys[places] == given
            counts.same[places] = counts.same.get(places, 1) + 1 if running else 1
            counts.keys[places] = given
            if counts.same[places] in REPORTED_AT:
                self._job.fact(
                    KeyReused(
                        step=self._job.now.step,
                        function=layout.function,
                        draws=(line,),
                        each_step=counts.same[places],
                        location=line if line != UNKNOWN else layout.location,
                    )
                )


def _read(value: Any) -> Any | None:
    """Return the values of a key, or of a number; None for large arrays and pending results."""
    if isinstance(value, jax.Array):
        if value.size > MAX_KEYS or value.is_deleted():
            return None
        if jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
            value = jax.random.key_data(value)
        if not value.is_ready():
            return None
    array = np.asarray(value)
    return array if array.size <= MAX_KEYS and array.dtype.kind in "iu" else None


def _place(layout: Layout) -> str | None:
    """Return the line of the lost update, or else the line of the function."""
    made = only_call("apply_updates", "apply_gradients") if layout.lost == "unchanged" else None
    return made or layout.place
