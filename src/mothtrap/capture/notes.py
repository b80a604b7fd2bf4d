"""Numbers and facts of the step in progress."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import structs

from mothtrap.core.fact import Fact
from mothtrap.core.facts.captures import Blind
from mothtrap.core.records import Scalar


class Notes:
    """Collects the numbers and facts of a step until it closes.

    Attributes:
        scalars: numbers of the step so far.
        facts: facts of the step so far.
        holds: whether notes exist that may belong to the next step.
        unstepped: reason why the process has run no step; empty once it has.
    """

    def __init__(self) -> None:
        self.scalars: list[Scalar] = []
        self.facts: list[Fact] = []
        self.holds = False
        self.unstepped: list[Fact] = []
        self._held_scalars: list[Scalar] = []
        self._held_facts: list[Fact] = []
        self._blind = set[str]()

    def scalar(self, name: str, of: str, value: float, *, may_be_next: bool = False) -> None:
        """Add a number to the step in progress, or to the next one if no step is in progress."""
        self.holds = self.holds or may_be_next
        target = self._held_scalars if may_be_next else self.scalars
        target.append(Scalar(name, of, value))

    def numbers(self, of: str, values: Mapping[str, float]) -> None:
        """Add several numbers of one owner."""
        for name, value in values.items():
            self.scalars.append(Scalar(name, of, value))

    def number_of_each(self, name: str, of: Sequence[str], values: Sequence[float]) -> None:
        """Add one number for each of several owners."""
        self.scalars += [Scalar(name, o, value) for o, value in zip(of, values, strict=True)]

    def observe(self, observation: Fact, *, may_be_next: bool = False) -> None:
        """Add a fact to the step in progress, or to the next one if no step is in progress."""
        self.holds = self.holds or may_be_next
        (self._held_facts if may_be_next else self.facts).append(observation)

    def blind(self, step: int, what: str, reason: str) -> None:
        """Report once that something is not observed, with the reason."""
        if what not in self._blind:
            self._blind.add(what)
            self.observe(Blind(step=step, what=what, reason=reason))

    def never_stepped(self, reason: str) -> None:
        """Record why a process that trains has not made a step."""
        self.unstepped.append(Blind(step=0, what="the training", reason=reason))

    def take(self) -> tuple[list[Scalar], list[Fact]]:
        """Return and remove the numbers and facts of the step."""
        scalars, facts = self.scalars, self.facts
        self.scalars, self.facts = [], []
        return scalars, facts

    def take_held(self, step: int) -> None:
        """Add held numbers and facts to a step."""
        self.holds = False
        self.scalars += self._held_scalars
        self.facts += (structs.replace(fact, step=step) for fact in self._held_facts)
        self._held_scalars, self._held_facts = [], []
