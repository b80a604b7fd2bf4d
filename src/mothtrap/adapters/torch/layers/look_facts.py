"""Records of an inspected forward pass, and the facts created from them."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch
from torch import nn

from mothtrap.adapters.torch.job.naming import NameBook, class_name
from mothtrap.adapters.torch.layers.weighted import (
    fan_in,
    is_convolution,
    squared_gain,
    weight_of,
)
from mothtrap.core.facts.layers import (
    DataTaken,
    ForwardScales,
    LayerScale,
    OutputSpread,
    RouterLoad,
    UnitInputs,
)
from mothtrap.core.window import Floats
from mothtrap.statistics.torch.plain import to_host
from mothtrap.tracing.describe import layers as describe
from mothtrap.tracing.describe.layer_numbers import EDGES


@dataclass(slots=True, eq=False)
class LookedAtLayer:
    """A layer with weights; `input_sizes` and `output_sizes` as in `output_spread.sizes`.

    `graph`: its output has a gradient function.
    """

    module: nn.Module
    input_sizes: torch.Tensor
    output_sizes: torch.Tensor | None = None
    output: weakref.ref[torch.Tensor] | None = None
    normalized: bool = False
    last: bool = False
    graph: bool = False

    def gave(self, tensor: torch.Tensor) -> bool:
        """Return whether a tensor is an output of the layer."""
        return self.output is not None and self.output() is tensor


@dataclass(slots=True, eq=False)
class LookedAtData:
    """Input data of a layer; `read` converts `numbers` to fields of `DataTaken`."""

    layer: LookedAtLayer
    shape: tuple[int, ...]
    numbers: torch.Tensor
    read: Callable[[Floats], dict[str, Any] | None]
    cut_at: str | None = None
    computed: bool = False


@dataclass(slots=True, eq=False)
class LookedAtUnits:
    """A saturating module; `counts` is as in `unit_histograms.histogram`."""

    module: nn.Module
    function: str
    counts: torch.Tensor
    output: weakref.ref[torch.Tensor] | None = None
    last: bool = False


@dataclass(slots=True, eq=False)
class LookedAtRouter:
    """A router, with the number of rows that chose each expert."""

    module: nn.Module
    experts: str
    counts: torch.Tensor
    rows: int


@dataclass(slots=True, eq=False)
class LookedAtOutput:
    """An output of the root; `numbers` as in `output_spread.spread`.

    If the root has an input with as many values per row, its spread is a fourth number.
    """

    place: str
    shape: tuple[int, ...]
    numbers: torch.Tensor


Fact: TypeAlias = DataTaken | ForwardScales | OutputSpread | RouterLoad | UnitInputs
_Part: TypeAlias = LookedAtData | LookedAtUnits | LookedAtRouter | LookedAtOutput


@dataclass(slots=True, eq=False)
class Facts:
    """All observations in one forward pass of a root."""

    step: int
    root: str
    location: str | None
    layers: list[LookedAtLayer] = field(default_factory=list)
    data: list[LookedAtData] = field(default_factory=list)
    units: list[LookedAtUnits] = field(default_factory=list)
    routers: list[LookedAtRouter] = field(default_factory=list)
    outputs: list[LookedAtOutput] = field(default_factory=list)
    normalizes: bool = False
    inputs_differ: bool | None = None

    def mark_last(self, outputs: Sequence[torch.Tensor]) -> None:
        """Find the layers and modules whose output is an output of the root."""
        stores = {tensor.data_ptr() for tensor in outputs}
        parts: list[LookedAtLayer | LookedAtUnits] = [*self.layers, *self.units]
        for part in parts:
            made = part.output() if part.output is not None else None
            part.last = made is not None and made.data_ptr() in stores

    def observations(self, book: NameBook) -> Iterator[Fact]:
        """Transfer all numbers at once, and return the facts."""
        gains = [_squared_gain(layer.module) for layer in self.layers]
        parts = [
            torch.cat([layer.input_sizes, layer.output_sizes, gain.reshape(1)])
            for layer, gain in zip(self.layers, gains, strict=True)
            if layer.output_sizes is not None
        ]
        rest: list[_Part] = [*self.data, *self.units, *self.routers, *self.outputs]
        parts += [_numbers(part) for part in rest]
        host = to_host(parts)
        count = len(parts) - len(rest)
        yield from self._scales(book, host[:count])
        for part, numbers in zip(rest, host[count:], strict=True):
            told = self._report(part, numbers, book)
            if told is not None:
                yield told

    def _scales(self, book: NameBook, host: Sequence[Floats]) -> Iterator[ForwardScales]:
        scales = []
        for layer, numbers in zip(self.layers, host, strict=True):
            given, _, gave, variance, gain = (float(number) for number in numbers)
            if not all(math.isfinite(n) for n in (given, gave, variance, gain)):
                return
            weight = weight_of(layer.module)
            scales.append(
                LayerScale(
                    **_about(layer.module, book, "layer"),
                    input_rms=given**0.5,
                    output_rms=gave**0.5,
                    variance=variance,
                    gain=gain**0.5,
                    fan_in=0 if weight is None else fan_in(weight, class_name(layer.module)),
                    normalized=layer.normalized,
                    last=layer.last,
                )
            )
        if scales:
            yield ForwardScales(
                step=self.step, root=self.root, layers=tuple(scales), normalizes=self.normalizes
            )

    def _report(self, part: _Part, numbers: Floats, book: NameBook) -> Fact | None:
        if isinstance(part, LookedAtData):
            return self._report_data(part, numbers, book)
        if isinstance(part, LookedAtUnits):
            if not numbers.any():
                return None  # contains only NaN
            return UnitInputs(
                step=self.step,
                **_about(part.module, book, "module"),
                function=part.function,
                units=len(numbers) // (len(EDGES) + 1),
                edges=EDGES,
                counts=tuple(int(number) for number in numbers),
                last=part.last,
            )
        if isinstance(part, LookedAtRouter):
            about = _about(part.module, book, "router")
            about.pop("router_type")
            return RouterLoad(
                step=self.step,
                **about,
                experts=part.experts,
                rows=part.rows,
                shares=tuple(float(number) / max(1, part.rows) for number in numbers),
            )
        return self._report_output(part, numbers)

    def _report_data(self, part: LookedAtData, numbers: Floats, book: NameBook) -> DataTaken | None:
        fields = part.read(numbers)
        if fields is None:
            return None
        return describe.data_fact(
            fields,
            grid=is_convolution(part.layer.module),
            step=self.step,
            **_about(part.layer.module, book, "layer"),
            shape=part.shape,
            normalized=part.layer.normalized,
            cut_at=part.cut_at,
            computed=part.computed,
        )

    def _report_output(self, part: LookedAtOutput, numbers: Floats) -> OutputSpread | None:
        between, rms, largest, *given = (float(number) for number in numbers)
        return describe.spread_fact(
            (between, rms, largest),
            step=self.step,
            root=self.root,
            place=part.place,
            shape=part.shape,
            inputs_differ=self.inputs_differ,
            input_spread=next(filter(math.isfinite, given), None),
            location=self.location,
        )


def _numbers(part: _Part) -> torch.Tensor:
    if isinstance(part, LookedAtUnits | LookedAtRouter):
        return part.counts
    return part.numbers


def _squared_gain(module: nn.Module) -> torch.Tensor:
    weight = weight_of(module)
    if weight is None:  # was reparametrized in the meantime
        return torch.zeros(())
    return squared_gain(weight, class_name(module))


def _about(module: nn.Module, book: NameBook, word: str) -> dict[str, Any]:
    return {
        word: book.module_name(module),
        f"{word}_type": class_name(module),
        "location": book.location(module),
    }
