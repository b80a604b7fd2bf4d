"""Captures that are due in the step in progress, queried by adapters."""

from __future__ import annotations

from collections.abc import Sequence

from mothtrap.capture.budgets import Budgets
from mothtrap.capture.selection import Groups, Selection, Stream
from mothtrap.core import kinds
from mothtrap.core.facts.captures import Dropped
from mothtrap.core.steps import Mode

MODES = tuple(Mode)
COPIES = "copies"
"""The part of a cost that is for copies."""
OPEN_FORWARDS = 256
"""Maximum number of training forwards of one step whose outputs are kept. More are not
accumulation, but inference, or steps without an optimizer. Chosen by hand.
"""

_MADE_BY_FORWARDS = kinds.made_by("forward", "backward")
"""Kinds of tensors of which there are as many as forwards."""
_NONE = frozenset[str]()


class Due:
    """Streams that capture in this step, and how their cost is shared.

    Attributes:
        active: the streams, by mode.
        kinds: by mode, the kinds of tensors that these capture.
        forwards: training forwards of the step so far.
        is_enough: no more training forward passes are captured in this step.

    Args:
        selection: all active streams, and the tensors that they match.
        budgets: time budgets.
    """

    def __init__(self, selection: Selection, budgets: Budgets) -> None:
        self._selection, self._budgets = selection, budgets
        self.active: dict[Mode, tuple[Stream, ...]] = dict.fromkeys(MODES, ())
        self.kinds: dict[Mode, frozenset[str]] = dict.fromkeys(MODES, _NONE)
        self.forwards, self.is_enough = 0, False
        self._names: dict[Mode, frozenset[str]] = dict.fromkeys(MODES, _NONE)
        self.any_names = _NONE
        self._payers: dict[tuple[str, str, Mode], tuple[Stream, ...]] = {}

    def activate(self, mode: Mode, active: tuple[Stream, ...]) -> None:
        """Set the streams that capture in this step."""
        before, self.active[mode] = self.active[mode], active
        if active != before:
            self._payers.clear()
            self._names[mode] = frozenset(stream.name for stream in active)
            self.any_names = _NONE.union(*self._names.values())
            self._find_kinds(mode)

    def _find_kinds(self, mode: Mode) -> None:
        found = frozenset(kind for stream in self.active[mode] for kind in stream.kinds)
        enough = self.is_enough and mode is Mode.TRAIN
        self.kinds[mode] = found - _MADE_BY_FORWARDS if enough else found

    def count_forward(self) -> bool:
        """Count a training forward pass of the step; return whether it is captured."""
        is_captured = not self.is_enough
        self.forwards += 1
        if is_captured and self.forwards >= OPEN_FORWARDS:
            self.is_enough = True
            self._find_kinds(Mode.TRAIN)
        return is_captured

    def forget_forwards(self, step: int) -> Dropped | None:
        """Reset the counts; return a report of forward passes that were not captured."""
        unseen, self.forwards, self.is_enough = self.forwards - OPEN_FORWARDS, 0, False
        self._find_kinds(Mode.TRAIN)
        if unseen <= 0:
            return None
        reason = f"more than {OPEN_FORWARDS} forward passes without an optimizer step"
        return Dropped(step=step, what="forwards", count=unseen, reason=reason)

    def is_due(self, kind: str, mode: Mode = Mode.TRAIN, *, statistic: str = "") -> bool:
        """Return whether anything of a kind, or one of its statistics, is captured in this step."""
        if kind not in self.kinds[mode]:
            return False
        return not statistic or statistic in self.of_kind(kind, mode)

    def of_kind(self, kind: str, mode: Mode = Mode.TRAIN) -> frozenset[str]:
        """Return the statistics due in this step for any tensor of a kind; see `statistics`."""
        if kind not in self.kinds[mode]:
            return _NONE
        return _NONE.union(*(s.statistics for s in self.active[mode] if kind in s.kinds))

    def statistics(self, tensor_id: int, mode: Mode = Mode.TRAIN) -> frozenset[str]:
        """Return the statistics due for a tensor in this step, and the purposes of its copies."""
        if self.is_enough and self._selection.kind(tensor_id) not in self.kinds[mode]:
            return _NONE
        return self._selection.statistics(tensor_id, self._names[mode])

    def groups(self, tensor_ids: Sequence[int], mode: Mode | None) -> Groups:
        """Group tensors by the statistics due in this step; each group has indices into the list.

        Args:
            tensor_ids: tensor ids of all of them.
            mode: None = any.
        """
        names = self.any_names if mode is None else self._names[mode]
        return self._selection.groups(tensor_ids, names)

    def charge(self, kind: str, cost_s: float, mode: Mode | None, part: str = "") -> None:
        """Charge a cost, in equal parts, to the streams that caused it.

        Needs of rules that are never skipped cost no budget.

        Args:
            kind: kind of the tensors.
            cost_s: seconds.
            mode: mode in which they were captured; None = train, or another source of requests.
            part: `COPIES`, or one statistic; otherwise any data.
        """
        for asked in MODES if mode is None else (mode,):
            what = kind, part, asked
            payers = self._payers.get(what)
            if payers is None:
                payers = self._payers[what] = tuple(
                    stream
                    for stream in self.active[asked]
                    if kind in stream.kinds and stream.copies == (part == COPIES)
                    if stream.is_asked or not stream.essential
                    if part in ("", COPIES, *stream.statistics)
                )
            if payers:
                for stream in payers:
                    self._budgets.charge(stream, cost_s / len(payers))
                return
