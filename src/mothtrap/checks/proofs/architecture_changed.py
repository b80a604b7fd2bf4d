"""PRE502: the layers differ from an invariants file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mothtrap.checks.contract import ContractCheck
from mothtrap.checks.subject import Subject
from mothtrap.core.contracts import Layer
from mothtrap.core.facts.checks import LayerRow
from mothtrap.core.found import Found
from mothtrap.core.frozen import frozen
from mothtrap.core.thresholds import threshold


@frozen
class ArchitectureChanged(ContractCheck):
    """The layers differ from an invariants file.

    What it detects:
        Layers that are missing or new, and layers whose type, output shape, or number of parameters
        has changed since `mothtrap check --save-invariants FILE`.

    Why it matters:
        A change to the model is easy to overlook, for example if an option controls it. Old
        checkpoints no longer fit, and scores cannot be compared.

    Fires:
        Error when a layer differs. The message names up to `max_named` layers.

    Stays quiet:
        Without an invariants file that lists layers.

    What to do:
        - If the change was made on purpose, save the invariants again.

    Example:
        mothtrap check --save-invariants invariants.toml train.py
        mothtrap check --invariants invariants.toml train.py --width 64

    References:
        https://arxiv.org/abs/2506.14813
    """

    code = "PRE502"
    title = "the architecture has changed"
    uses = ("step",)
    passed = "the layers have not changed"
    costs = 1
    max_named: int = threshold(4, unit="layers", source="chosen by hand")

    def run(self, subject: Subject) -> Iterable[Found]:
        """Compare the table of layers with the invariants."""
        layers = [_entry(row) for row in subject.forward.layers()]
        subject.learned.extend(layers)
        subject.figures["layers"] = len(layers)
        expected = [one for one in self.expected if isinstance(one, Layer)]
        if not expected:
            return
        changes = list(_changes(expected, layers))
        if not changes:
            return
        more = len(changes) - self.max_named
        yield Found(
            step=0,
            severity="error",
            message="; ".join(changes[: self.max_named])
            + (f"; {more} more layers differ" if more > 0 else ""),
            location=subject.forward.location,
            evidence={"layers": len(changes)},
        )


def _entry(row: LayerRow) -> Layer:
    return Layer(
        name=row.name,
        type=row.kind,
        parameters=row.parameters,
        trained=row.trained,
        output=row.output[1:],
    )


def _changes(expected: list[Layer], found: list[Layer]) -> Iterator[str]:
    """Yield the differences between two tables of layers, in words."""
    before, now = ({one.name: one for one in rows} for rows in (expected, found))
    for name, old in before.items():
        new = now.get(name)
        if new is None:
            yield f"layer {name} is missing"
        elif new.type != old.type:
            yield f"layer {name} is a {new.type}, not a {old.type}"
        elif new.parameters != old.parameters:
            yield f"layer {name} has {new.parameters:,} parameters, not {old.parameters:,}"
        elif new.output != old.output:
            yield f"layer {name} has outputs of {_shape(new)}, not {_shape(old)}"
        elif new.trained != old.trained:
            yield f"layer {name} is {'' if new.trained else 'not '}trained"
    yield from (f"layer {name} is new" for name in now if name not in before)


def _shape(layer: Layer) -> str:
    return " x ".join(map(str, layer.output)) or "no shape"
