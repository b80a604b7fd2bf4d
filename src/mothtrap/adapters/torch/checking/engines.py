"""Run a trial in a copy of the process, or in a restarted script."""

from __future__ import annotations

import dataclasses
import os
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import msgspec
import torch
from torch import nn

from mothtrap.adapters.torch.checking.playing import Playing
from mothtrap.adapters.torch.checking.recording import Recording
from mothtrap.adapters.torch.checking.switch import Switch
from mothtrap.adapters.torch.job import copies
from mothtrap.adapters.torch.job.copies import GoOn
from mothtrap.checks.restarts import Command, Restarts
from mothtrap.checks.step import Change
from mothtrap.core.check_plan import CheckPlan, TrialOrder

POLL_S = 0.02
"""Seconds between checks for the results of a restarted script, or for orders of rank 0."""
ENDED = "ended"
"""File whose existence tells the other ranks that rank 0 runs no further trial."""


class Engine(Protocol):
    """Runs trials of the recorded step."""

    def played(self, change: Change, steps: int, seconds: float) -> tuple[bytes, bool]:
        """Run a trial.

        Returns:
            Lines as written by `Playing`, and whether the trial ended in time.
        """


class ForkEngine:
    """Runs each trial in a copy of the process.

    Args:
        recording: recording of the observed steps.
        switch: receives the player of the trial, in the copy.
    """

    def __init__(self, recording: Recording, switch: Switch) -> None:
        self._recording, self._switch = recording, switch

    def played(self, change: Change, steps: int, seconds: float) -> tuple[bytes, bool]:
        """Run a trial.

        Raises:
            GoOn: in the copy.
        """
        pid, pipe = copies.copy_process()
        if pid == 0:
            playing = Playing(self._recording, change, steps, pipe)
            playing.begin()
            self._switch.player = playing
            raise GoOn
        return copies.result_of(pid, pipe, seconds)


class RestartEngine:
    """Restarts the script for each trial.

    All ranks of a distributed script are started again: rank 0 writes an order for each trial,
    and the other ranks follow in `serve`.

    Args:
        plan: plan of this process.
        command: command that starts the script.
        recording: recording of the watched steps.
        deadline: monotonic seconds by which the last trial must have ended.
    """

    def __init__(
        self, plan: CheckPlan, command: Command, recording: Recording, deadline: float
    ) -> None:
        self._plan, self._deadline = plan, deadline
        self._restarts = Restarts(plan, command, deadline)
        self._recording = recording
        self._made = 0
        self._begun_s = time.time() - plan.began_s

    def played(self, change: Change, steps: int, seconds: float) -> tuple[bytes, bool]:
        """Run a trial; the time to reach the step is added to `seconds`."""
        left = self._deadline - time.monotonic()
        if left < self._begun_s:
            why = f"{self._begun_s:.0f} s to start the script again, and {left:.0f} s are left"
            return f"!a trial needs {why}; use a larger --budget\n".encode(), True
        seconds = min(seconds + 2 * self._begun_s, left)
        folder = Path(self._plan.scratch) / f"trial-{self._made}"
        self._made += 1
        order = TrialOrder(
            change=dataclasses.asdict(change),
            steps=steps,
            results=str(folder / "results"),
            port=_free_port() if ranks() > 1 else 0,
        )
        plan = msgspec.structs.replace(
            self._plan,
            steps=self._recording.turns,
            budget_s=seconds,
            began_s=time.time(),
            scratch=str(folder),
            trial=order,
        )
        folder.mkdir()
        in_time = self._restarts.run(folder, plan, seconds, environ=_meeting(plan))
        lines = _content(order.results)
        if not lines and in_time:
            lines = b"!the script did not reach the step when it was started again\n"
        return lines, in_time

    def serve(self) -> None:
        """Execute requests of rank 0 until it ends."""
        while time.monotonic() < self._deadline:
            folder = Path(self._plan.scratch) / f"trial-{self._made}"
            if (Path(self._plan.scratch) / ENDED).exists():
                return
            if not (folder / "plan.json").exists():
                time.sleep(POLL_S)
                continue
            self._made += 1
            plan = msgspec.json.decode((folder / "plan.json").read_bytes(), type=CheckPlan)
            left = plan.budget_s - (time.time() - plan.began_s)
            self._restarts.follow(folder, left, environ=_meeting(plan))

    def end(self) -> None:
        """Tell the other ranks to end."""
        (Path(self._plan.scratch) / ENDED).touch()


def _meeting(plan: CheckPlan) -> dict[str, str]:
    """Return the environment in which ranks meet at a separate port, since the first is in use."""
    if plan.trial is None or not plan.trial.port:
        return {}
    return {"MASTER_PORT": str(plan.trial.port), "TORCHELASTIC_USE_AGENT_STORE": "False"}


def why_no_copy() -> str:
    """Return why this process cannot be copied for a trial; empty if it can."""
    if threading.current_thread() is not threading.main_thread():
        return "a thread of the script trains"
    return copies.why_impossible()


def why_no_restart(command: Command, recording: Recording) -> str:
    """Return why the script cannot be restarted for a trial; empty if it can."""
    calls = () if recording.last is None else recording.last.calls
    if any(is_sharded(call.module) for call in calls):
        return "the weights are sharded across ranks, so one rank alone cannot call the model"
    if ranks() > 1 and int(os.environ.get("LOCAL_WORLD_SIZE", "0")) != ranks():
        return "the ranks of the script were not started by one torchrun on this machine"
    return command.why_not_again()


def is_sharded(model: nn.Module) -> bool:
    """Return whether each rank holds part of the weights: FSDP, or sharded tensors."""
    wrapped = any(type(one).__name__ == "FullyShardedDataParallel" for one in model.modules())
    return wrapped or any(hasattr(one, "device_mesh") for one in model.parameters())


def rank() -> int:
    """Return the rank of this process; 0 in a script without ranks."""
    return torch.distributed.get_rank() if ranks() > 1 else 0


def ranks() -> int:
    """Return the number of ranks of the script; 1 in a script without ranks."""
    distributed = torch.distributed
    ready = distributed.is_available() and distributed.is_initialized()
    return distributed.get_world_size() if ready else 1


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def _content(file: str) -> bytes:
    with suppress(FileNotFoundError):
        return Path(file).read_bytes()
    return b""
