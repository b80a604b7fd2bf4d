"""Run one trial in a script that was restarted for it."""

from __future__ import annotations

import os

import msgspec

from mothtrap.adapters.torch.checking.engines import rank
from mothtrap.adapters.torch.checking.playing import Playing
from mothtrap.adapters.torch.checking.recording import Recording
from mothtrap.adapters.torch.checking.scaled_losses import ScaledLosses
from mothtrap.adapters.torch.checking.shortened import Shortened
from mothtrap.adapters.torch.checking.switch import Switch
from mothtrap.adapters.torch.job.copies import GoOn
from mothtrap.adapters.torch.replaying.interception import Interception
from mothtrap.checks.step import Change
from mothtrap.core.check_plan import CheckPlan, TrialOrder


class RestartedTrial:
    """Records steps until the recorded one, then runs the trial and ends the process.

    Args:
        plan: settings, including a trial.
    """

    def __init__(self, plan: CheckPlan) -> None:
        assert plan.trial is not None
        self._order: TrialOrder = plan.trial
        self._scaled = ScaledLosses()
        self._shortened = Shortened(plan)
        self._recording = Recording(plan.steps, self._hold, self._scaled)
        self._switch = Switch()
        self._switch.player = self._recording

    def install(self) -> None:
        """Wrap the calls of the script."""
        self._scaled.install()
        Interception(self._switch, follows=True)
        self._shortened.install()

    def _hold(self) -> None:
        """Begin the trial.

        Raises:
            GoOn: always; the script's call is then passed to the player of the trial.
        """
        own = rank()
        results = self._order.results + (f".{own}" if own else "")  # only rank 0's are read
        file = os.open(results, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        change = msgspec.convert(self._order.change, Change)
        playing = Playing(self._recording, change, self._order.steps, file)
        playing.begin()
        self._switch.player = playing
        raise GoOn
