"""Losses of backward passes: value, computation and location."""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import torch

from mothtrap.adapters.torch.job import graph
from mothtrap.adapters.torch.job.distributed import own_value
from mothtrap.adapters.torch.job.readable import is_readable
from mothtrap.adapters.torch.losses import loss_values
from mothtrap.adapters.torch.losses.policies import SampledActions
from mothtrap.adapters.torch.losses.target_observer import TargetObserver
from mothtrap.adapters.torch.optimization.gradient_marks import ClosureGradients
from mothtrap.capture.grouper import BackwardBegan, BackwardEnded, ClosedStep, Grouper
from mothtrap.capture.pending import PendingNumber
from mothtrap.core.facts.losses import LossCall, LossSeries
from mothtrap.core.steps import Mode
from mothtrap.tracing.jobs.identity import ByIdentity
from mothtrap.tracing.source import frames
from mothtrap.tracing.source.mentions import only_call

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job
    from mothtrap.adapters.torch.job.observers import BackwardRoot
    from mothtrap.adapters.torch.losses.forwards_seen import ForwardsSeen

GRAPH_FIRST, GRAPH_EVERY = 3, 100
"""Backward passes of a call site whose graph is read: the first ones, then one in N."""
MAX_CALLS = 256
"""Maximum number of graph readings kept for the step in progress."""
VALUES_EVERY = 8
"""Labels and predictions are inspected in every Nth backward pass of a call site."""
MAX_NONFINITE_LOOKS = 4
"""Maximum number of non-finite losses whose targets are inspected outside of the sampled passes."""

MAX_LOSSES = 2 * Grouper.MAX_PENDING
"""Maximum number of stored losses that no optimizer step follows."""
MAX_WAITING = 256
"""Maximum number of losses on a device before they are copied to the host without a request."""


class LossObserver:
    """Stores the losses of the step in progress by key.

    Attributes:
        closure: the gradients at the start of a step with a closure.
        places: line of the loss, by the site of its backward pass.
        candidate: the latest root of `torch.autograd.grad` since the last step.
        graph_given: the user has passed a loss with its graph to `step`.
        averaging: names of optimizers that average micro-batches themselves.
        sampled: actions that policies have drawn since the last step.
    """

    def __init__(self, job: Job, forwards: ForwardsSeen) -> None:
        self._job, self._forwards = job, forwards
        recorder = job.recorder
        self._captures, self._due, self._notes = recorder.captures, recorder.due, recorder.notes
        self.closure = ClosureGradients()
        self._values: dict[int, float] = {}
        self._waiting: dict[int, torch.Tensor | PendingNumber] = {}
        self._nonfinite: set[int] = set()
        self._keys = 0
        self._seen: dict[str, int] = {}
        self.places: dict[str, str | None] = {}
        self._dtypes: dict[str, torch.dtype] = {}
        self._calls: list[tuple[str, LossCall]] = []
        self._targets = TargetObserver(job, forwards)
        self._looks_at_nonfinite = MAX_NONFINITE_LOOKS
        self._scaled: ByIdentity[torch.Tensor, torch.Tensor] = ByIdentity()
        self._scaler: weakref.ref[torch.amp.GradScaler] | None = None
        self._scales = False
        self._series: set[str] = set()
        self._given: tuple[str, float] | None = None
        self.candidate: tuple[BackwardBegan, torch.Tensor | None] | None = None
        self.averaging: set[str] = set()
        self.sampled = SampledActions()
        self.graph_given = False

    @property
    def knows_none(self) -> bool:
        """Return whether no step has had a loss so far."""
        return not self._series

    def scaled(self, scaler: torch.amp.GradScaler, originals: Any, results: Any) -> None:
        """Record which losses a gradient scaler has multiplied."""
        self._scaler, self._scales = weakref.ref(scaler), True
        if isinstance(originals, torch.Tensor):
            originals, results = [originals], [results]
        for original, result in zip(originals, results, strict=False):
            if isinstance(original, torch.Tensor) and isinstance(result, torch.Tensor):
                self._scaled[result] = original.detach()

    def began(self, tensors: Any) -> tuple[BackwardBegan, torch.Tensor | None]:
        """Record the root of a backward pass.

        Args:
            tensors: arguments of `torch.autograd.backward`.

        Returns:
            The event, and the loss if the backward pass starts from one number.
        """
        frame = frames.user_frame()
        site = frames.location(frame) or "unknown"
        adds = bool(self._job.grouper.running) and self.closure.accumulates()
        root = scalar_root(tensors)
        if root is None:
            return BackwardBegan(site, accumulates=adds), None
        if site not in self.places:
            place = self._forwards.loss_location(root) or self._job.job.process.loss_place
            if place is None and frame is not None:
                place = frames.assigned_at(frame)
            self.places[site] = place or site
        self._keys += 1
        at_hand = type(root) is torch.Tensor and root.is_cpu and not self._scales
        if at_hand and self._captures.rows.device is None:
            self._dtypes[site], number = root.dtype, root.item()
            if type(number) is not complex:
                self._keep(self._keys, float(number))
                return BackwardBegan(site, self._keys, adds), root
        value = self._unscaled(root)
        self._dtypes[site] = value.dtype
        self._keep(self._keys, self._begun(value))
        return BackwardBegan(site, self._keys, adds), root

    def given(self, loss: Any) -> None:
        """Record the user's loss of the latest step; a tensor shows how it was computed."""
        frame = frames.user_frame()
        site = frames.location(frame) or "unknown"
        if site not in self.places:
            place = frames.assigned_at(frame) if frame is not None else None
            self.places[site] = place or site
        root = scalar_root(loss)
        self._given = (site, float(loss) if root is None else float(_value(root)))
        if root is not None:
            self.graph_given = root.grad_fn is not None
            self._dtypes[site] = root.dtype
            self._job.contain_part("loss graph", self.read_graph, site, root)

    def gradient_taken(self, outputs: Any) -> None:
        """Record the roots of `torch.autograd.grad`.

        They are the loss of a loop that assigns gradients itself, if there is no backward pass
        before the step.
        """
        self.candidate = self.began(outputs)

    def step_begins(self) -> None:
        """Use the latest root of `torch.autograd.grad` as the loss of a step without one."""
        candidate, self.candidate = self.candidate, None
        if candidate is None or not self._job.grouper.knows_no_loss:
            return
        event, root = candidate
        self._job.feed(event)
        self._job.feed(BackwardEnded())
        if root is not None:
            self._job.contain_part("loss graph", self.read_graph, event.site, root)
            self._job.contain_part("labels", self.read_labels, event.site, root)

    def nonfinite(self) -> bool:
        """Return whether a loss of the step is not finite (one transfer)."""
        if self._waiting:
            self._resolve()
        return bool(self._nonfinite)

    def values(self, keys: Iterable[int]) -> tuple[float, ...]:
        """Return the known values of losses by key."""
        if self._waiting:
            self._resolve()
        known, found = self._values, []
        for key in keys:
            if key in known:
                found.append(known[key])
        return tuple(found)

    def of(self, losses: Sequence[tuple[str, int]]) -> list[tuple[float, str]]:
        """Return the values of losses by call site and key, with their lines."""
        if self._waiting:
            self._resolve()
        return [
            (self._values[key], self.places.get(site) or site)
            for site, key in losses
            if key in self._values
        ]

    def close(self, closed: ClosedStep) -> None:
        """Pass the losses of a closed step to the recorder."""
        if self._waiting:
            self._resolve()
        labels: dict[str, str] = {}
        for series in closed.series:
            labels[series.site] = series.series
        if self._given is not None:  # the user's setting overrides the observation
            site, value = self._given
            labels = dict.fromkeys((*labels, site), f"{site} {closed.owners}")
            self._add(closed, labels[site], site, value)
            self._given = None
        else:
            averages = bool(self.averaging) and self.averaging.issuperset(closed.optimizers)
            for series in closed.series:
                values = self.values(series.losses)
                total = sum(values) / (len(values) or 1 if averages else 1)
                self._add(closed, series.series, series.site, total)
        for site, call in self._calls:
            self._notes.observe(
                msgspec.structs.replace(call, step=closed.step, series=labels.get(site))
            )
        self._calls.clear()
        # The backward pass that closed the step has begun the next one.
        latest = self._values.get(self._keys)
        self._values.clear()
        if latest is not None:
            self._values[self._keys] = latest
        self._nonfinite &= self._values.keys()

    def _add(self, closed: ClosedStep, series: str, site: str, value: float) -> None:
        self._notes.scalar("loss", series, value)
        self._forwards.loss_trained(series, value)
        if "loss" in self._due.kinds[Mode.TRAIN]:
            dtype = self._dtypes.get(site, torch.float64)
            self._forwards.loss_tensors.loss(series, self.places.get(site), value, dtype)
        if series not in self._series:
            self._series.add(series)
            self._notes.observe(
                LossSeries(
                    step=closed.step,
                    series=series,
                    location=self.places.get(site),
                    optimizers=closed.optimizers[:8],
                )
            )

    def _unscaled(self, root: torch.Tensor) -> torch.Tensor:
        """Return the value of a root before a gradient scaler multiplied it.

        A root that is computed from the scaler's result, such as a sum of scaled losses, is divided
        by the scale.
        """
        scaler = self._scaler() if self._scaler is not None else None
        value = self._scaled.get(root)
        if value is None:
            value = _value(root)
            if scaler is not None:
                value = value / scaler.get_scale()
        self._scaler = None
        return value

    def _begun(self, value: torch.Tensor) -> torch.Tensor | PendingNumber | float:
        """Return the number, or its pending transfer, because the script may change the tensor."""
        device = self._captures.rows.device
        if device is not None and device.holds([value]):
            return device.bring(value)
        return float(value) if value.device.type == "cpu" else value.clone()

    def _keep(self, key: int, value: torch.Tensor | PendingNumber | float) -> None:
        if not isinstance(value, float):
            self._waiting[key] = value
            if len(self._waiting) > MAX_WAITING:
                self._resolve()
            return
        self._values[key] = value
        if not math.isfinite(value):
            self._nonfinite.add(key)
        if len(self._values) > MAX_LOSSES:  # no step ever followed
            oldest = next(iter(self._values))
            del self._values[oldest]
            self._nonfinite.discard(oldest)

    def _resolve(self) -> None:
        """Wait for losses that are being transferred, and transfer others on a device together."""
        waiting, self._waiting = self._waiting, {}
        there = {key: v for key, v in waiting.items() if isinstance(v, torch.Tensor)}
        if there:
            host = torch.stack([v.reshape(()).double() for v in there.values()]).tolist()
            waiting |= dict(zip(there, host, strict=True))
        for key, value in waiting.items():
            self._keep(key, float(value))

    def loss_began(self, loss: BackwardRoot) -> None:
        """Read how a loss was computed, and its targets, if due."""
        self._job.contain_part("loss graph", self.read_graph, loss.site, loss.root)
        self._job.contain_part("labels", self.read_labels, loss.site, loss.root)

    def read_graph(self, site: str, root: torch.Tensor) -> None:
        """Read how the loss was computed, at some backward passes of a call site."""
        count = self._seen[site] = self._seen.get(site, -1) + 1
        broke = bool(self._nonfinite) and self._looks_at_nonfinite > 0
        self._looks_at_nonfinite -= broke
        wants_values = (count % VALUES_EVERY == 0 or broke) and not self._forwards.recomputes
        if count >= GRAPH_FIRST and count % GRAPH_EVERY and not wants_values:
            return
        if root.grad_fn is None:
            return
        terms = graph.loss_terms(root.grad_fn)
        if not terms and count == 0:
            self._notes.blind(
                self._job.grouper.step,
                f"how the loss at {site} is computed",
                f"its graph begins with {root.grad_fn.name()}, which is not a known loss",
            )
        for term in terms:
            del self._calls[:-MAX_CALLS]  # no step ever followed
            call = self._call(site, term, wants_values)
            above = term.above[root in self._scaled :]
            self._calls.append((site, msgspec.structs.replace(call, above=above)))
            if wants_values:
                of_rows = terms if term is terms[0] else []
                self._job.contain_part(
                    "loss targets", self._add_targets, site, term, of_rows, len(terms) == 1
                )

    def read_labels(self, site: str, root: torch.Tensor) -> None:
        """Record the targets of a loss if they are due."""
        if not self._due.is_due("label"):
            return
        terms = graph.loss_terms(root.grad_fn) if root.grad_fn is not None else []
        checkpointed = self._forwards.recomputes
        found = [loss_values.target(term, checkpointed=checkpointed) for term in terms]
        targets = [target for target in found if target is not None]
        place = self.places[site] or site
        if targets:
            self._forwards.loss_tensors.labels(place, targets)
            return
        self._notes.blind(
            self._job.grouper.step,
            f"labels of the loss at {place}",
            "its graph has no target; record the labels with dbg.log_tensor",
        )

    def _add_targets(
        self, site: str, term: graph.LossTerm, terms: list[graph.LossTerm], alone: bool
    ) -> None:
        place, call = self._calls[-1]
        self._calls[-1] = (place, self._targets.look(site, term, call, terms, alone=alone))

    def _call(self, site: str, term: graph.LossTerm, wants_values: bool) -> LossCall:
        least, greatest = loss_values.predicted_range(term) if wants_values else (None, None)
        return LossCall(
            step=0,
            operation=term.operation,
            chain=term.chain,
            prediction_shape=term.prediction_shape,
            target_shape=term.target_shape,
            result_shape=term.result_shape,
            classes=term.classes,
            reduction=term.reduction,
            alone=term.alone,
            negated=term.negated,
            complete=term.complete,
            optimistic=term.optimistic,
            softmax_sizes=term.softmax_sizes,
            made_at=_made_at(term),
            location=self.places[site],
            label_counts=loss_values.label_counts(term) if wants_values else None,
            prediction_spread=loss_values.prediction_spread(term) if wants_values else None,
            predicted_least=least,
            predicted_greatest=greatest,
        )


_MAKERS = {
    "softmax": ("softmax", "Softmax"),
    "log_softmax": ("log_softmax", "LogSoftmax"),
    "sigmoid": ("sigmoid", "Sigmoid"),
}


def _made_at(term: graph.LossTerm) -> str | None:
    """Return the only line that calls the function that computed the prediction."""
    makers = [name for name in term.chain if name in _MAKERS]
    if term.operation == "cross_entropy" and not makers:
        makers = ["log_softmax"]  # for a loss that the script composes
    return only_call(*_MAKERS[makers[-1]]) if makers else None


def _value(root: torch.Tensor) -> torch.Tensor:
    """Return the value of a root, without its graph."""
    own = own_value(root)
    return (root if own is None else own).detach()


def scalar_root(tensors: Any) -> torch.Tensor | None:
    """Return the one-element tensor from which a backward pass starts, else None."""
    if isinstance(tensors, tuple | list) and len(tensors) == 1:
        tensors = tensors[0]
    # Private API, covered by a test: tensors inside a transformed function have no values.
    here = torch._C._functorch.peek_interpreter_stack() is None
    if here and type(tensors) is torch.Tensor and tensors.is_cpu and tensors.numel() == 1:
        return tensors  # a shortcut for the most frequent case
    if isinstance(tensors, torch.Tensor) and tensors.numel() == 1 and is_readable(tensors):
        # No worker has the value of a partial sum.
        return tensors if own_value(tensors) is not None else None
    return None
