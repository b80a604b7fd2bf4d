"""The weights of layers before the first step, and units that start out equal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.optim import Optimizer

from mothtrap.adapters.torch.job.naming import class_name
from mothtrap.adapters.torch.job.readable import is_plain
from mothtrap.adapters.torch.layers.weighted import GATES, fan_in, unit_axis
from mothtrap.adapters.torch.optimization.optimizers import Known, OptimizerObserver
from mothtrap.adapters.torch.optimization.parameter_list import parameters
from mothtrap.statistics.torch.plain import to_host
from mothtrap.tracing.describe import weights
from mothtrap.tracing.describe.weights import MAX_LAYERS, MAX_VALUES, ROUNDING, STEPS
from mothtrap.tracing.jobs.identity import ByIdentity

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job

_TABLES = (nn.Embedding, nn.EmbeddingBag)


@dataclass(slots=True, eq=False)
class _Suspect:
    """A weight whose units were equal in every inspection, along one of `axes`."""

    module: nn.Module
    name: str
    path: str
    axes: tuple[int, ...]
    gates: int
    looks: int = 0


class InitialWeightsObserver:
    """Reads weights and gradients before each optimizer's first step.

    Only weights whose units are all equal are inspected again later.
    """

    def __init__(self, job: Job, optimizers: OptimizerObserver) -> None:
        self._job, self._optimizers = job, optimizers
        self._suspects: ByIdentity[Optimizer, ByIdentity[torch.Tensor, _Suspect]] = ByIdentity()
        self._sums: ByIdentity[torch.Tensor, float] = ByIdentity()
        self._looked: ByIdentity[Optimizer, int] = ByIdentity()
        self._reported = 0

    def step_began(self, _: Known, optimizer: Optimizer) -> None:
        """Handle the start of an optimizer step, when gradients exist.

        If a closure is evaluated several times in a step, the first evaluation counts.
        """
        steps = self._optimizers.steps_of(optimizer)
        if steps not in STEPS or self._looked.get(optimizer) == steps:
            return
        self._looked[optimizer] = steps
        if optimizer not in self._suspects:
            self._suspects[optimizer] = ByIdentity()
            if steps == 0:
                self._look_first(optimizer)
        suspects = self._suspects.get(optimizer)
        if suspects:
            self._look_again(optimizer, suspects)

    def _look_first(self, optimizer: Optimizer) -> None:
        found: list[tuple[torch.Tensor, nn.Module]] = []
        owners = self._owners()
        for parameter in parameters(optimizer):
            module = owners.get(id(parameter))
            if module is None or isinstance(module, _TABLES) or not _is_matrix(parameter):
                continue
            found.append((parameter, module))
        suspects = self._suspects.get(optimizer)
        for parameter, module in found[:MAX_LAYERS]:
            suspect = self._suspect(parameter, module)
            if suspect is not None and suspects is not None:
                suspects[parameter] = suspect
        room = max(0, MAX_LAYERS - self._reported)
        self._report_weights(found[:room])
        if suspects:
            for parameter in parameters(optimizer):
                if is_plain(parameter):
                    self._sums[parameter] = float(parameter.detach().double().sum())

    def _report_weights(self, found: list[tuple[torch.Tensor, nn.Module]]) -> None:
        self._reported += len(found)
        sizes = to_host([_sizes(parameter) for parameter, _ in found])
        for (parameter, module), (square, variance, low, high) in zip(found, sizes, strict=True):
            name, path = self._optimizers.name_of(parameter)
            kind = class_name(module)
            weight = weights.Weight(
                step=self._job.grouper.step,
                name=name,
                layer=path,
                layer_type=kind,
                units=int(parameter.shape[unit_axis(kind)]),
                location=self._job.book.location(module),
            )
            spread = None if parameter.grad is None else float(high) - float(low)
            measured = weights.Sizes(float(square) ** 0.5, float(variance) ** 0.5, spread)
            fact = weights.initial(weight, measured, fan_in(parameter, kind))
            self._job.recorder.notes.observe(fact)

    def _suspect(self, parameter: torch.Tensor, module: nn.Module) -> _Suspect | None:
        kind = class_name(module)
        name, path = self._optimizers.name_of(parameter)
        gates = 3 if name.endswith("in_proj_weight") else GATES.get(kind, 1)
        # The use of a custom weight is unknown: its units may be along either axis.
        own = type(module).__module__.split(".")[0] != "torch" and parameter.ndim == 2
        axes = (0, 1) if own else (unit_axis(kind),)
        same = tuple(a for a in axes if _are_same(parameter.detach(), a, gates, exact=True))
        return _Suspect(module, name, path, same, gates) if same else None

    def _look_again(
        self, optimizer: Optimizer, suspects: ByIdentity[torch.Tensor, _Suspect]
    ) -> None:
        still = ByIdentity[torch.Tensor, _Suspect]()
        moved = self._has_moved(optimizer)
        for parameter, suspect in suspects.items():
            gradient = parameter.grad
            if gradient is None or not is_plain(gradient):
                still[parameter] = suspect
                continue
            suspect.axes = tuple(
                axis
                for axis in suspect.axes
                if _are_same(parameter.detach(), axis, suspect.gates)
                and _are_same(gradient, axis, suspect.gates)
            )
            if suspect.axes:
                suspect.looks += 1
                still[parameter] = suspect
                self._report_same(parameter, gradient, suspect, moved)
        self._suspects[optimizer] = still

    def _report_same(
        self, parameter: torch.Tensor, gradient: torch.Tensor, suspect: _Suspect, moved: bool
    ) -> None:
        weight = weights.Weight(
            step=self._job.grouper.step,
            name=suspect.name,
            layer=suspect.path,
            layer_type=class_name(suspect.module),
            units=int(parameter.shape[suspect.axes[0]]) // suspect.gates,
            location=self._job.book.location(suspect.module),
        )
        self._job.recorder.notes.observe(
            weights.identical(
                weight,
                looks=suspect.looks,
                zero=not bool(parameter.detach().any()),
                gradient_zero=not bool(gradient.any()),
                moved=moved,
            )
        )

    def _has_moved(self, optimizer: Optimizer) -> bool:
        """Return whether the steps so far have changed anything."""
        for parameter in parameters(optimizer):
            before = self._sums.get(parameter)
            if before is not None and float(parameter.detach().double().sum()) != before:
                return True
        return False

    def _owners(self) -> dict[int, nn.Module]:
        return {
            id(parameter): module
            for root in self._job.book.roots
            if (whole := root.module()) is not None
            for module in whole.modules()
            for parameter in module._parameters.values()
            if parameter is not None
        }


def _is_matrix(parameter: torch.Tensor) -> bool:
    usable = is_plain(parameter) and parameter.is_floating_point() and parameter.requires_grad
    return usable and parameter.ndim >= 2 and parameter.numel() > 1


def _sizes(parameter: torch.Tensor) -> torch.Tensor:
    """Return mean square and variance of the weights, and two percentiles of the gradient."""
    weights, gradient = _sample(parameter), parameter.grad
    ends = torch.zeros(2, device=weights.device)
    if gradient is not None and is_plain(gradient):
        values = _sample(gradient).sort().values
        places = torch.tensor([0.05, 0.95], device=values.device) * (len(values) - 1)
        ends = values[places.round().long()]
    return torch.cat([torch.stack([weights.square().mean(), weights.var(correction=0)]), ends])


def _sample(tensor: torch.Tensor) -> torch.Tensor:
    flat = tensor.detach().flatten()
    return flat[:: max(1, flat.numel() // MAX_VALUES)].float()


def _are_same(tensor: torch.Tensor, axis: int, gates: int, *, exact: bool = False) -> bool:
    """Return whether all units of a weight are equal; within each gate of a recurrent layer."""
    units = tensor.movedim(axis, 0)
    if units.shape[0] % gates or units.shape[0] // gates < 2:
        return False
    blocks = units.reshape(gates, units.shape[0] // gates, -1)
    if exact:
        quick = bool((blocks[:, 0] == blocks[:, 1]).all())
        return quick and bool((blocks == blocks[:, :1]).all())
    limit = ROUNDING * float(blocks.abs().amax())
    return float((blocks - blocks[:, :1]).abs().amax()) <= limit
