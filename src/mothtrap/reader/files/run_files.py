"""The files of one run, read as they grow; shared by every view of the run."""

from __future__ import annotations

from pathlib import Path

from mothtrap.reader.files.attempts import AttemptView
from mothtrap.store import layout
from mothtrap.store.mirror import mirror_of


class RunFiles:
    """Reads a run's folder; what was read once is kept and never read again.

    Attributes:
        attempts: by number.
        holds: while it is not 0, `refresh` reads nothing.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.attempts: dict[int, AttemptView] = {}
        self.holds = 0
        self._mirror = mirror_of(path)
        self.refresh()
        # Who may have died is known from the first reading, that nothing came after from a second.
        self.refresh()

    def refresh(self, *, judge: bool = True) -> None:
        """Read what was added since the last time.

        Args:
            judge: whether to ask anew which processes of the job live.
        """
        if self.holds:
            return
        may_have_more = self.writing or not self.attempts
        self._read(judge=judge, at_once=False)
        if self._mirror is not None and may_have_more and not self.writing:
            # Whatever was sent between the last look into the store and the job's end.
            self._read(judge=judge, at_once=True)

    def _read(self, *, judge: bool, at_once: bool) -> None:
        unheard_s = float("-inf")
        if self._mirror is not None:
            self._mirror.refresh(at_once=at_once)
            unheard_s = self._mirror.unheard_s
        for number in layout.attempts(self.path):
            if number not in self.attempts:
                folder = layout.attempt_folder(self.path, number)
                self.attempts[number] = AttemptView(folder, mirror=self._mirror)
        for attempt in self.attempts.values():
            attempt.refresh(judge=judge, unheard_s=unheard_s)

    @property
    def writing(self) -> bool:
        """Return whether more may come, judged before the last reading."""
        return bool(self.attempts) and self.attempts[max(self.attempts)].writing
