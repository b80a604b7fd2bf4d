"""Facts about compiled functions: traces, reused random keys, dropped results, stale values."""

from __future__ import annotations

from mothtrap.core.fact import Fact


class Retraced(Fact, frozen=True, kw_only=True, tag=True):
    """A compiled function was traced and compiled again after its first call.

    Attributes:
        function: name of the function.
        traces: number of traces so far.
        calls: number of calls so far.
        changed: the argument that changed, in words (`batch: float32[64,3] -> [32,3]`).
        location: line of the function.
    """

    function: str
    traces: int
    calls: int
    changed: str = ""
    location: str | None = None


class KeyReused(Fact, frozen=True, kw_only=True, tag=True):
    """Random numbers were drawn twice from the same key.

    Attributes:
        function: compiled function that draws.
        draws: lines that draw from the key in one call.
        each_step: number of consecutive calls with the same key; 0 if a single call draws twice.
        location: location of the first draw.
    """

    function: str
    draws: tuple[str, ...] = ()
    each_step: int = 0
    location: str | None = None


class UpdateDropped(Fact, frozen=True, kw_only=True, tag=True):
    """A function returned new weights or a new state, but was called again with the old ones.

    Attributes:
        function: name of the function, or of the optimizer.
        calls: number of consecutive calls with the same weights or state.
        why: `unchanged` if it returns its arguments, `in place` if it changes its arguments, which
            is not visible outside, `not applied` if it computes gradients but does not apply them,
            `other weights` if an optimizer applies them to the weights of another model,
            `not stepped` if an optimizer never steps, `not returned` if it computes a new state and
            returns the old one; empty if the caller drops the result.
        state: argument whose new value is dropped; empty for the weights.
        location: line of the call, or of the function if the function loses the update.
    """

    function: str
    calls: int
    why: str = ""
    state: str = ""
    location: str | None = None


class HostCallback(Fact, frozen=True, kw_only=True, tag=True):
    """A compiled step calls back into Python.

    Attributes:
        function: name of the step function.
        callbacks: lines that call back.
        location: location of the first callback.
    """

    function: str
    callbacks: tuple[str, ...] = ()
    location: str | None = None


class ValueReadOnce(Fact, frozen=True, kw_only=True, tag=True):
    """A compiled function still uses a value that it read when it was traced.

    Attributes:
        function: name of the function.
        name: the value in the script: `beta`, `self.beta`; or the called generator of random
            numbers, `np.random.normal`.
        kind: `number`, `array`, or `random` for drawn numbers.
        before: the number that the function uses.
        now: the number that the script has set since.
        calls: number of calls since the trace.
        location: line of the function.
    """

    function: str
    name: str
    kind: str
    before: str = ""
    now: str = ""
    calls: int = 0
    location: str | None = None
