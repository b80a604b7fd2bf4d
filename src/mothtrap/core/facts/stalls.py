"""Facts about workers that do not step."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from mothtrap.core.fact import Fact


class CollectiveCall(msgspec.Struct, frozen=True, kw_only=True):
    """The last collective operation that a process called.

    `number` counts the calls of its process group from 1; 0 if unknown. `waits`: the training
    thread is inside the call.
    """

    name: str
    number: int = 0
    group: str = ""
    waits: bool = False


class InputState(NamedTuple):
    """State of the input pipelines of a process.

    Attributes:
        text: the file and the record that they are working on, in words; "" = unknown.
        is_blocked: a pipeline cannot continue before it has finished this file or record.
    """

    text: str = ""
    is_blocked: bool = False


class WorkerStalled(Fact, frozen=True, kw_only=True, tag=True):
    """State of a worker that has not stepped for a long time; written by a thread of its process.

    Attributes:
        rank: rank of the worker.
        waited_s: seconds since its last step.
        is_idle: in the last seconds, its processes used hardly any processor time and read and
            wrote nothing, and its training thread stayed at the same line.
        still_s: seconds for which the training thread has been at the same line without calling
            another collective.
        function: function of the user's own code that the training thread is executing.
        location: `file:line` in it.
        collective: the last collective that it called; None if there was none.
        has_resumed: a step has ended since, so the worker is no longer stalled.
        at_s: Unix time of this state, which is renewed every second.
        stack: stack of the training thread, the innermost call first: `function file:line`.
        reading: the file and the record that the input pipeline is working on, in words; "" =
            unknown.
        reading_s: seconds for which they have blocked the pipeline.
    """

    rank: int
    waited_s: float
    is_idle: bool = False
    still_s: float = 0.0
    function: str = ""
    location: str | None = None
    collective: CollectiveCall | None = None
    has_resumed: bool = False
    at_s: float = 0.0
    stack: tuple[str, ...] = ()
    reading: str = ""
    reading_s: float = 0.0


class WorkerSilent(Fact, frozen=True, kw_only=True, tag=True):
    """A worker that neither trains nor reports its state, while most other workers do.

    Found when the logs of nodes are joined. `step` is the last step of the worker.

    Attributes:
        rank: rank of the worker.
        host: its machine; "" if unknown.
        silent_s: seconds since its last news, by the clock of its node.
        is_node: no worker of its node, nor its launcher, shows any sign of life.
        has_resumed: the worker gives signs of life again.
    """

    rank: int
    host: str = ""
    silent_s: float = 0.0
    is_node: bool = False
    has_resumed: bool = False
