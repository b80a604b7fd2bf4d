"""The files of one run, read as they grow; shared by every view of the run."""

from __future__ import annotations

from pathlib import Path

from mothtrap.reader.files.attempts import AttemptView
from mothtrap.reader.files.run_damage import run_damage
from mothtrap.reader.files.unread import Budget, FileChecks
from mothtrap.store import layout
from mothtrap.store.mirror import mirror_of
from mothtrap.store.remote import read_remote


class RunFiles:
    """Reads a run's folder, and caches everything it has read.

    Attributes:
        attempts: attempts by number.
        copies: attempts that are ignored because their folder is a copy, with the reason.
        holds: while it is not 0, `refresh` reads nothing.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.attempts: dict[int, AttemptView] = {}
        self.holds = 0
        self.copies: dict[int, str] = {}
        self._checks = FileChecks()
        self._mirror = mirror_of(path)
        self.refresh()
        # The first read shows which processes have died, and the second that no data followed.
        self.refresh()

    def refresh(self, *, judge: bool = True) -> None:
        """Read data that was added since the last refresh.

        Args:
            judge: check again which processes of the job are alive.
        """
        if self.holds:
            return
        may_have_more = self.writing or not self.attempts
        self._read(judge=judge, at_once=False)
        if self._mirror is not None and may_have_more and not self.writing:
            # Fetch data that was sent between the last read of the store and the job's end.
            self._read(judge=judge, at_once=True)

    def _read(self, *, judge: bool, at_once: bool) -> None:
        unheard_s = float("-inf")
        if self._mirror is not None:
            self._mirror.refresh(at_once=at_once)
            unheard_s = self._mirror.unheard_s
        for number in layout.attempts(self.path):
            if number not in self.attempts and number not in self.copies:
                folder = layout.attempt_folder(self.path, number)
                self.attempts[number] = AttemptView(folder, mirror=self._mirror)
        for attempt in self.attempts.values():
            attempt.refresh(judge=judge, unheard_s=unheard_s)
        self._leave_out_copies()

    def damage(self, limit_bytes: int) -> tuple[str, ...]:
        """Return the damage to all files of the run, without duplicate sentences.

        Events, findings, scalars and descriptions are always read.

        Args:
            limit_bytes: size of the statistics, whole tensors, snapshots and logged files that
                are read for this; the rest is checked when it is used.
        """
        budget = Budget(limit_bytes)
        elsewhere = read_remote(self.path) is not None
        found = [*self.copies.values()]
        for attempt in self.attempts.values():
            found += attempt.damage(self._checks, budget, elsewhere=elsewhere)
        found += run_damage(self.path, self._checks, budget)
        return tuple(dict.fromkeys(found))

    def _leave_out_copies(self) -> None:
        """Leave out attempts that have the same description as another attempt."""
        for number, attempt in list(self.attempts.items()):
            said = attempt.info.attempt if attempt.info is not None else number
            if said != number and said in self.attempts:
                self.copies[number] = f"{number} is left out: it is a copy of attempt {said}"
                del self.attempts[number]

    @property
    def writing(self) -> bool:
        """Return whether more data may follow, as of the last refresh."""
        return bool(self.attempts) and self.attempts[max(self.attempts)].writing
