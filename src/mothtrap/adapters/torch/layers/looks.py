"""Occasional inspections of whole training forwards, layer by layer."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from mothtrap.adapters.torch.job.naming import Root
from mothtrap.adapters.torch.job.nested import placed_tensors, tensors_in
from mothtrap.adapters.torch.job.readable import is_plain
from mothtrap.adapters.torch.layers import (
    attention_masks,
    image_channels,
    input_features,
    output_spread,
    padding_masks,
    position_axes,
    router_choices,
    unit_histograms,
)
from mothtrap.adapters.torch.layers.activity import unit_axis
from mothtrap.adapters.torch.layers.look_facts import (
    Facts,
    LookedAtData,
    LookedAtLayer,
    LookedAtOutput,
    LookedAtRouter,
    LookedAtUnits,
)
from mothtrap.adapters.torch.layers.weighted import is_weighted, normalizes
from mothtrap.core.facts.layers import (
    ImageChannels,
    MaskOfOnes,
    PaddingLabeled,
    PositionAxis,
    SequenceAxes,
    UnmaskedPadding,
)
from mothtrap.core.schedule import Schedule
from mothtrap.tracing.jobs.identity import ByIdentity, OwnRef
from mothtrap.tracing.source import frames
from mothtrap.tracing.source.cut import cut_at

if TYPE_CHECKING:
    from mothtrap.adapters.torch.data.provenance import ProvenanceObserver
    from mothtrap.adapters.torch.job.job import Job

WHEN = Schedule(logarithmic=True)
"""Inspected steps: the first steps, then increasingly rare ones, so that the cost vanishes."""
MAX_LAYERS, MAX_DATA, MAX_UNITS, MAX_OUTPUTS = 256, 4, 8, 4
"""Maximum number of weighted layers, layers with data as input, saturating modules, and outputs of
a root that are inspected in one forward. Chosen by hand to bound the cost.
"""
MAX_PADDED = 8
"""Maximum number of steps for which padding is reported."""

_SEQUENTIAL = (nn.RNNBase, nn.MultiheadAttention)
"""Modules whose argument `batch_first` determines which axis is the sequence."""


class ForwardLooks:
    """Samples inputs and outputs of layers in the forward passes that are due.

    One forward pass of each trained root is inspected per step. All numbers of a forward pass are
    transferred from their device at once, when it returns.

    Args:
        job: receives the facts.
        provenance: provides the number of samples in the batch.

    Attributes:
        active: the current forward pass is inspected; otherwise there is nothing to report.
    """

    def __init__(self, job: Job, provenance: ProvenanceObserver) -> None:
        self.active = False
        self._job, self._provenance = job, provenance
        self._seen: dict[int, int] = {}
        self._facts: Facts | None = None
        self._inputs: list[torch.Tensor] = []
        self._entered: dict[int, LookedAtLayer] = {}
        self._units: dict[int, LookedAtUnits] = {}
        self._routers: dict[int, str] = {}
        self._before: weakref.ref[nn.Module] | None = None
        self._masked: ByIdentity[nn.Module, bool] = ByIdentity()
        self._placed: ByIdentity[nn.Module, bool] = ByIdentity()
        self._given: dict[int, OwnRef[torch.Tensor]] = {}
        self._batch_first = False
        self._padded: set[int] = set()

    def root_called(self, root: Root, inputs: Sequence[Any], trains: bool) -> None:
        """Handle the start of a root's forward pass.

        Args:
            root: module called by user code.
            inputs: its arguments.
            trains: it is in an optimizer, and the forward pass belongs to training.
        """
        step = self._job.grouper.step
        due = trains and WHEN.is_due(step) and self._seen.get(root.index) != step
        whole = root.module() if due and torch.is_grad_enabled() else None
        self.active = whole is not None
        if whole is None:
            return
        self._seen[root.index] = step
        self._facts = Facts(step=step, root=root.path, location=self._job.book.location(whole))
        self._inputs = [tensor for tensor in tensors_in(list(inputs)) if is_plain(tensor)]
        self._entered.clear()
        self._units.clear()
        self._routers = router_choices.routers(whole)
        self._before = None
        self._given.clear()
        axes = {bool(m.batch_first) for m in whole.modules() if isinstance(m, _SEQUENTIAL)}
        self._batch_first = axes == {True}
        for given in self._inputs[:1]:
            self._report_channels(step, whole, given)

    def entered(self, module: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Handle a module call within the forward pass."""
        kind: type = type(module)
        if padding_masks.takes_mask(kind):
            self._look_at_padding(module, args, kwargs)
        given = next(iter(tensors_in([*args, *kwargs.values()], levels=1)), None)
        facts = self._facts
        if facts is None or given is None or not is_plain(given):
            return
        if not given.is_floating_point() or not given.numel():
            return
        if normalizes(module):
            facts.normalizes = True
            for layer in facts.layers[-1:]:
                layer.normalized = layer.normalized or layer.gave(given)
        elif is_weighted(module) and len(facts.layers) < MAX_LAYERS:
            layer = self._entered[id(module)] = LookedAtLayer(module, output_spread.sizes(given))
            if not given.requires_grad and len(facts.data) < MAX_DATA:
                self._take_data(facts, layer, given)
        if isinstance(module, _SEQUENTIAL) and not module.batch_first and given.ndim == 3:
            self._report_axes(facts.step, module, given)
        if module not in self._placed and position_axes.adds_positions(module, given):
            self._given[id(module)] = OwnRef(given)
        mask = attention_masks.given_to(module, args, kwargs)
        if mask is not None and module not in self._masked:
            self._masked[module] = True
            self._report_mask(facts.step, module, mask)
        function = unit_histograms.FUNCTIONS.get(type(module).__name__)
        if function is not None and len(facts.units) < MAX_UNITS:
            before = self._before() if self._before is not None else None
            counts = unit_histograms.histogram(given, unit_axis(given.ndim, before))
            if counts is not None:
                units = self._units[id(module)] = LookedAtUnits(module, function, counts)
                facts.units.append(units)

    def _look_at_padding(
        self, module: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        """Report padding with labels or without a mask.

        It is reported once per step, because parts of the model get the same arguments.
        """
        facts = self._facts
        if facts is None or facts.step in self._padded or len(self._padded) >= MAX_PADDED:
            return
        labels = padding_masks.labeled(module, args, kwargs)
        padding = padding_masks.unmasked(module, args, kwargs) if labels is None else None
        if labels is None and padding is None:
            return
        self._padded.add(facts.step)
        about: dict[str, Any] = {
            "step": facts.step,
            "module": self._job.book.module_name(module),
            "module_type": type(module).__name__,
            "location": frames.user_location(),
        }
        if labels is not None:
            self._job.recorder.notes.observe(
                PaddingLabeled(padded=labels[0], labeled=labels[1], **about)
            )
        elif padding is not None:
            self._job.recorder.notes.observe(UnmaskedPadding(**asdict(padding), **about))

    def _report_axes(self, step: int, module: nn.Module, given: torch.Tensor) -> None:
        book = self._job.book
        self._job.recorder.notes.observe(
            SequenceAxes(
                step=step,
                module=book.module_name(module),
                module_type=type(module).__name__,
                shape=tuple(given.shape),
                samples=self._provenance.samples_drawn,
                location=book.location(module),
            )
        )

    def _report_mask(self, step: int, module: nn.Module, mask: torch.Tensor) -> None:
        book = self._job.book
        self._job.recorder.notes.observe(
            MaskOfOnes(
                step=step,
                shape=tuple(mask.shape),
                module=book.module_name(module),
                location=book.location(module),
            )
        )

    def _report_channels(self, step: int, whole: nn.Module, given: torch.Tensor) -> None:
        found = image_channels.differences(given)
        if found is not None:
            book = self._job.book
            self._job.recorder.notes.observe(
                ImageChannels(
                    step=step,
                    module=book.module_name(whole) or type(whole).__name__,
                    shape=tuple(given.shape),
                    neighbor=found[0],
                    third=found[1],
                    location=frames.user_location(),
                )
            )

    def _report_positions(
        self, step: int, module: nn.Module, given: torch.Tensor, output: Any
    ) -> None:
        """Report vectors that differ along the batch, if it is known to be on axis 0."""
        self._placed[module] = True
        rows, length, _ = given.shape
        is_batch = self._batch_first or (rows == self._provenance.samples_drawn != length)
        if is_batch and position_axes.axis_of_positions(module, given, output) == 0:
            book = self._job.book
            self._job.recorder.notes.observe(
                PositionAxis(
                    step=step,
                    module=book.module_name(module),
                    shape=tuple(given.shape),
                    location=book.location(module),
                )
            )

    def left(self, module: nn.Module, output: Any) -> None:
        """Handle a module's return within the forward pass."""
        reference = self._given.pop(id(module), None)
        before = reference() if reference is not None else None
        if before is not None and self._facts is not None:
            self._report_positions(self._facts.step, module, before, output)
        given = next(iter(tensors_in(output, levels=1)), None)
        facts = self._facts
        if facts is None or given is None or not is_plain(given) or not given.numel():
            return
        if module._parameters:
            self._before = weakref.ref(module)
        if not given.is_floating_point():
            return
        layer = self._entered.pop(id(module), None)
        if layer is not None:
            layer.output, layer.output_sizes = OwnRef(given), output_spread.sizes(given)
            layer.graph = given.requires_grad
            facts.layers.append(layer)
        units = self._units.pop(id(module), None)
        if units is not None:
            units.output = OwnRef(given)
        experts = self._routers.get(id(module))
        if experts is not None:
            facts.routers.append(LookedAtRouter(module, experts, *router_choices.choices(given)))

    def root_returned(self, output: Any) -> None:
        """Report the observations at the end of the forward pass."""
        facts, self._facts, self.active = self._facts, None, False
        if facts is None:
            return
        placed = [pair for pair in placed_tensors(output) if is_plain(pair[1])]
        for place, tensor in placed[:MAX_OUTPUTS]:
            numbers = output_spread.spread(tensor) if tensor.is_floating_point() else None
            if numbers is not None and tensor.requires_grad:
                if len(placed) > 2:  # a code and a reconstruction
                    numbers = torch.cat([numbers, *self._spread_of_input(tensor)])
                facts.outputs.append(LookedAtOutput(place, tuple(tensor.shape), numbers))
        differ = [output_spread.rows_differ(tensor) for tensor in self._inputs[:2]]
        known = [each for each in differ if each is not None]
        facts.inputs_differ = any(known) if known else None
        facts.mark_last([tensor for _, tensor in placed])
        self._inputs = []
        for observation in facts.observations(self._job.book):
            self._job.recorder.notes.observe(observation)

    def _spread_of_input(self, output: torch.Tensor) -> list[torch.Tensor]:
        """Return the spread of the first input with as many values as an output, if any."""
        for given in self._inputs:
            fits = given.ndim > 1 and len(given) == len(output) and given.numel() == output.numel()
            numbers = output_spread.spread(given) if fits else None
            if numbers is not None and given.device == output.device:
                return [numbers[:1]]
        return []

    def _take_data(self, facts: Facts, layer: LookedAtLayer, given: torch.Tensor) -> None:
        looked = input_features.look(layer.module, given)
        if looked is None:
            return
        cut, is_input = None, self._is_input(given)
        if any(before.graph for before in facts.layers) and not is_input:
            cut = cut_at(frames.user_frame())
        computed = not is_input and not input_features.may_be_of(given, self._inputs)
        shape = tuple(given.shape)
        facts.data.append(LookedAtData(layer, shape, *looked, cut_at=cut, computed=computed))

    def _is_input(self, tensor: torch.Tensor) -> bool:
        """Return whether a tensor has the same memory as an input of the root."""
        memory = tensor.untyped_storage().data_ptr()
        return any(given.untyped_storage().data_ptr() == memory for given in self._inputs)
