"""Attributes of modules are as they were before the forward, and are not kept alive."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import torch
from tests.adapters.torch.watched import sgd, watched
from torch import nn

from mothtrap.adapters.torch.recording import attributes
from mothtrap.adapters.torch.recording.attributes import Attributes


class Known:
    """The parts of the known objects that attributes use."""

    def __init__(self, *roots: nn.Module) -> None:
        self._roots, self.book = list(roots), self

    def add(self, root: nn.Module) -> None:
        self._roots.append(root)

    def modules(self) -> list[nn.Module]:
        return self._roots

    @property
    def roots_seen(self) -> int:
        return len(self._roots)


class Cell(nn.Module):
    """A module whose attributes the test sets."""

    def __init__(self, **held: Any) -> None:
        super().__init__()
        self.line = nn.Linear(2, 2)
        vars(self).update(held)
        self.act: Callable[[], None] = lambda: None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.act()
        return self.line(x)


def _own(read: Attributes, cell: Cell) -> dict[str, Any]:
    return read.of(cell).get("", {})


def test_what_a_forward_has_left_in_a_module_is_not_kept_alive() -> None:
    """Attention maps or features would otherwise live for another whole step."""
    cell = Cell(maps=None, features=[], last={})
    references: list[weakref.ref[torch.Tensor]] = []
    alive: list[bool] = []

    def overwrite() -> None:
        vars(cell).update(maps=None, features=[], last={})
        gc.collect()
        alive.extend(reference() is not None for reference in references)

    cell.act = overwrite
    with watched(capture=()):
        optimizer = sgd(cell)
        for step in range(8):
            cell(torch.ones(3, 2)).mean().backward()
            if step > 4:  # by then the attributes are known
                made = [cell.line(torch.ones(3, 2)) for _ in range(3)]
                vars(cell).update(maps=made[0], features=[made[1]], last={"map": made[2]})
                references = [weakref.ref(tensor) for tensor in made]
                del made
            optimizer.step()
    assert alive == [False] * 6


def test_small_tensors_are_those_of_before_the_forward() -> None:
    cell = Cell(hidden=torch.zeros(2), seen=[torch.zeros(1), 3], count=torch.zeros(()))
    read = Attributes(Known(cell)).read()  # type: ignore[arg-type]
    cell.hidden = torch.ones(2)
    cell.seen[0] += 1  # type: ignore[index, operator]
    cell.seen[1] = 4  # type: ignore[index, operator]
    cell.count += 1  # type: ignore[assignment, operator]
    found = _own(read, cell)
    assert found["hidden"].tolist() == [0, 0]
    assert [found["seen"][0].tolist(), found["seen"][1]] == [[0], 3]
    assert found["count"].item() == 0
    assert read.lost() == ()
    assert _own(read.read(), cell)["count"].item() == 1


def test_a_tensor_that_has_not_changed_is_copied_once() -> None:
    cell = Cell(table=torch.zeros(4))
    read = Attributes(Known(cell))  # type: ignore[arg-type]
    first = _own(read.read(), cell)["table"]
    assert _own(read.read(), cell)["table"] is first is not cell.table
    cell.table[0] = 1  # type: ignore[operator, index]
    assert _own(read.read(), cell)["table"][0] == 1


def test_large_tensors_are_not_copied_and_told_of_once_they_have_changed(
    monkeypatch: Any,
) -> None:
    monkeypatch.setattr(attributes, "COPIED_BYTES", 8)
    cell = Cell(table=torch.zeros(4), maps={"a": torch.zeros(4)}, small=torch.zeros(2))
    read = Attributes(Known(cell)).read()  # type: ignore[arg-type]
    assert _own(read, cell)["table"] is cell.table
    assert read.lost() == ()
    cell.table += 1  # type: ignore[assignment, operator]
    cell.maps["a"] = cell.small = torch.ones(2)  # type: ignore[index, operator]
    assert read.lost() == ("attribute table before the step", "attribute maps before the step")
    assert _own(read, cell).keys() == {"small"}
    assert _own(read, cell)["small"].tolist() == [0, 0]


def test_tables_and_histories_are_no_state() -> None:
    nested = [[[0] * 60] * 60] * 60
    cell = Cell(nested=nested, long=[0] * 1000, own=object(), rate=0.5, pair=(1, [2]))
    assert _own(Attributes(Known(cell)).read(), cell) == {"rate": 0.5, "pair": (1, [2])}  # type: ignore[arg-type]


def test_tensors_of_inference_mode_have_no_version() -> None:
    with torch.inference_mode():
        cell = Cell(hidden=torch.zeros(2))
    read = Attributes(Known(cell))  # type: ignore[arg-type]
    for _ in range(2):
        assert _own(read.read(), cell)["hidden"].tolist() == [0, 0]
    with torch.inference_mode():
        cell.hidden += 1  # type: ignore[assignment, operator]
    assert _own(read, cell)["hidden"].tolist() == [0, 0]
    assert _own(read.read(), cell)["hidden"].tolist() == [1, 1]


def test_what_is_no_state_takes_no_room_of_what_is() -> None:
    cell = Cell(**{f"map{i}": None for i in range(10)}, last=[1])
    read = Attributes(Known(cell))  # type: ignore[arg-type]
    for _ in range(5):  # the 6th forward does not list the attributes
        read.read()
    vars(cell).update({f"map{i}": cell.line(torch.ones(2)) for i in range(10)})
    assert _own(read.read(), cell) == {"last": [1]}


def test_a_root_with_attributes_is_read_at_once_also_where_those_before_had_none() -> None:
    known, cell = Known(Cell()), Cell(rate=0.5)
    read = Attributes(known)  # type: ignore[arg-type]
    for _ in range(5):  # the 6th forward does not list the attributes
        read.read()
    known.add(cell)
    assert _own(read.read(), cell) == {"rate": 0.5}
