"""Facts about compiled functions: traced again and again, keys used twice, results dropped."""

from __future__ import annotations

from mothtrap.core.fact import Fact


class Retraced(Fact, frozen=True, kw_only=True, tag=True):
    """A compiled function was traced and compiled again after its first call.

    Attributes:
        function: its name.
        traces: so far.
        calls: so far.
        changed: the argument that was different, in words (`batch: float32[64,3] -> [32,3]`).
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
        each_step: calls with the very same key running; 0 where one call alone draws twice.
        location: of the first draw.
    """

    function: str
    draws: tuple[str, ...] = ()
    each_step: int = 0
    location: str | None = None


class UpdateDropped(Fact, frozen=True, kw_only=True, tag=True):
    """A function made new weights, or a new state, and was called again with the old ones.

    Attributes:
        function: its name, or that of the optimizer.
        calls: running with the same ones.
        why: `unchanged` where it returns what it was given, `in place` where it changes its
            arguments, which is not seen outside of it, `not applied` where it computes gradients
            and applies them to nothing, `not stepped` where an optimizer never steps; nothing
            where the caller drops the result.
        state: the argument whose new value is dropped; nothing for the weights.
        location: line of the call, or of the function where that loses the update.
    """

    function: str
    calls: int
    why: str = ""
    state: str = ""
    location: str | None = None


class HostCallback(Fact, frozen=True, kw_only=True, tag=True):
    """A compiled step calls back into Python.

    Attributes:
        function: its name.
        callbacks: lines that do.
        location: of the first.
    """

    function: str
    callbacks: tuple[str, ...] = ()
    location: str | None = None
