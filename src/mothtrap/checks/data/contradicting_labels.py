"""PRE302: equal rows have different labels."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable

from mothtrap.checks import tables
from mothtrap.checks.check import Check
from mothtrap.checks.subject import Subject
from mothtrap.core.errors import NotApplicable
from mothtrap.core.found import Found
from mothtrap.core.frozen import frozen
from mothtrap.core.thresholds import threshold


@frozen
class ContradictingLabels(Check):
    """Equal rows have different labels.

    What it detects:
        Training samples with equal inputs and different class numbers.

    Why it matters:
        No model can predict two labels for one input. The loss cannot fall below a certain value,
        and the model learns to be uncertain.

    Fires:
        Warning when more than `share` of the rows have an equal row with another label. A note when
        more than `repeated` of the rows repeat, as in tables of a few discrete columns: then the
        columns do not determine the label.

    Stays quiet:
        Augmented samples, and targets that are not class numbers.

    What to do:
        - Look at the named rows, and correct or drop their labels.
        - If the rows differ in reality, add the column that distinguishes them.

    Example:
        x = torch.cat([x, x[:100]])
        y = torch.cat([y, (y[:100] + 1) % 10])

    References:
        https://l7.curtisnorthcutt.com/label-errors
    """

    code = "PRE302"
    title = "equal rows have different labels"
    uses = ("datasets",)
    passed = "equal rows have equal labels"
    costs = 3
    explains = ("cannot_overfit",)
    share: float = threshold(0.01, unit="of the rows", source="chosen by hand")
    repeated: float = threshold(0.2, unit="of the rows", source="chosen by hand")

    def run(self, subject: Subject) -> Iterable[Found]:
        """Group rows by the digest of their inputs, and compare their labels."""
        train = tables.training_set(subject)
        if train.random:
            raise NotApplicable("samples change each time they are read")
        seen = tables.digested(train, subject)
        labels = tables.classes(seen.targets, subject).tolist()
        groups: dict[bytes, list[int]] = defaultdict(list)
        for place, digest in enumerate(seen.digests):
            if digest:
                groups[digest].append(place)
        several = [places for places in groups.values() if len(places) > 1]
        bad = [places for places in several if len({labels[n] for n in places}) > 1]
        total = len(seen.indices)
        subject.figures["rows"] = total
        rows = sum(map(len, bad))
        if rows <= self.share * total:
            return
        often = sum(map(len, several)) > self.repeated * total
        floor = sum(_entropy([labels[n] for n in places]) * len(places) for places in bad) / total
        pairs = [(seen.indices[places[0]], seen.indices[places[-1]]) for places in bad]
        shown = ", ".join(f"{min(pair)} and {max(pair)}" for pair in sorted(pairs)[:5])
        indices: list[float | int | str] = [seen.indices[n] for places in bad for n in places]
        yield Found(
            step=0,
            severity="info" if often else "warning",
            message=f"{rows} of {total} training rows have an equal row with a different label, "
            f"so the training cross-entropy cannot fall below {floor:.3g}; rows {shown}",
            location=train.location,
            evidence={
                "indices": indices[:100],
                "rows": rows,
                "floor": floor,
            },
        )


def _entropy(labels: list[int]) -> float:
    shares = [count / len(labels) for count in Counter(labels).values()]
    return -sum(share * math.log(share) for share in shares)
