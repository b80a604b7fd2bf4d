"""All tensors that adapters have defined, and the tensors that were announced to the run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mothtrap.capture.selection import Selection
from mothtrap.core.facts.modules import ShapeChanged
from mothtrap.core.records import RawBlock
from mothtrap.core.tensors import TensorInfo
from mothtrap.statistics.distribution import SHAPES


class Tensors:
    """Assigns ids to tensors; captured tensors are announced once, with the next record.

    An array derived from a tensor is a separate tensor: `metric:exponents(weight:head.weight)`.

    Attributes:
        new: tensors announced since the last record.

    Args:
        selection: determines which tensors are captured.
    """

    def __init__(self, selection: Selection) -> None:
        self._selection = selection
        self._infos: list[TensorInfo] = []
        self._announced: set[int] = set()
        self.new: list[tuple[int, TensorInfo]] = []
        self._derived: dict[tuple[int, str], int] = {}
        self._shapes: dict[int, tuple[int, ...]] = {}

    def __getitem__(self, tensor_id: int) -> TensorInfo:
        return self._infos[tensor_id]

    def define(self, info: TensorInfo) -> int:
        """Define a tensor; return its id."""
        tensor_id = self._add(info)
        if self._selection.define(tensor_id, info):
            self.announce(tensor_id)
        return tensor_id

    def announce(self, tensor_id: int) -> None:
        """Announce a tensor, and the distributions derived from it."""
        self._announce(tensor_id)
        wanted = (stream.statistics for stream in self._selection.matching(tensor_id))
        for name in sorted(SHAPES.keys() & frozenset[str]().union(*wanted)):
            if (tensor_id, name) not in self._derived:
                number = self._add(_derived(name, self._infos[tensor_id]))
                self._derived[tensor_id, name] = number
                self._announce(number)

    def _add(self, info: TensorInfo) -> int:
        self._infos.append(info)
        return len(self._infos) - 1

    def _announce(self, tensor_id: int) -> None:
        if tensor_id not in self._announced:
            self._announced.add(tensor_id)
            self.new.append((tensor_id, self._infos[tensor_id]))

    def take_new(self) -> tuple[tuple[int, TensorInfo], ...]:
        """Return the tensors announced since the last call."""
        new, self.new = self.new, []
        return tuple(new)

    def changed_shapes(
        self, step: int, numbers: Iterable[int], shapes: Iterable[tuple[int, ...]]
    ) -> list[ShapeChanged]:
        """Return facts about tensors whose shape changed since the last call."""
        found = []
        for number, shape in zip(numbers, shapes, strict=True):
            if self._shapes.get(number) != shape:
                self._shapes[number] = shape
                identity = self._infos[number].identity
                found.append(ShapeChanged(step=step, tensor=identity, shape=shape))
        return found

    def with_logged(self, blocks: Sequence[RawBlock]) -> list[RawBlock]:
        """Return the copies that belong to tensors logged by the script."""
        kinds = [{self._infos[number].kind for number in block.tensor_R} for block in blocks]
        return [block for block, found in zip(blocks, kinds, strict=True) if "metric" in found]

    def derived(self, tensor_id: int, name: str) -> int:
        """Return the id of a distribution of an announced tensor."""
        return self._derived[tensor_id, name]


def _derived(name: str, of: TensorInfo) -> TensorInfo:
    shape, dtype = SHAPES[name]
    return TensorInfo(
        kind="metric",
        name=f"{name}({of.identity})",
        module=of.module,
        module_type=of.module_type,
        shape=shape,
        dtype=dtype,
        location=of.location,
        scope=of.scope,
    )
