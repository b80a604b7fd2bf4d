"""Digests of the inputs of each step, so that two runs can be compared bit for bit.

At every step, they cover the batch, the targets of losses, and random states. Before the first
training step of a model, they cover its weights and buffers. With `every_tensor`, they also cover
gradients, weights and buffers at every step; only then are tensors on an accelerator inspected.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Mapping, Sequence
from itertools import compress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from torch.optim import Optimizer

from mothtrap.adapters.torch.comparing_runs.model_state import ModelState, Placed
from mothtrap.adapters.torch.comparing_runs.random_digests import RandomDigests
from mothtrap.adapters.torch.job.naming import Root, value_kind
from mothtrap.adapters.torch.job.readable import is_countable, shows_values
from mothtrap.adapters.torch.job.tensor_refs import ContentRef
from mothtrap.core.digests import ROWS, as_scalar, as_scalars
from mothtrap.core.measured import DIGEST, DIGEST_SUM
from mothtrap.statistics.digest import digest_bytes, rows_sum
from mothtrap.statistics.torch import compiled
from mothtrap.statistics.torch.dtypes import type_name
from mothtrap.statistics.torch.fingerprint import bit_sums
from mothtrap.statistics.torch.in_place import bytes_in_place
from mothtrap.statistics.torch.plain import local
from mothtrap.statistics.torch.raw import bytes_of, describe
from mothtrap.statistics.torch.reducers import DigestingReducer
from mothtrap.tracing.jobs.identity import ByIdentity, OwnRef

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job

MICRO_BATCHES = 16
"""Maximum number of forwards per step whose inputs and random states are inspected."""
TENSORS = 16
"""Maximum number of inspected tensors of a batch."""
ROWS_MOST, ROWS_BYTES = 256, 1 << 20
"""Maximum number of rows and bytes of a batch whose rows are inspected individually, in 60
microseconds at most.
"""
STATE_BYTES = 2 << 30
"""Maximum size of a model on the host whose initial state is inspected: about a quarter of a
second.
"""
NOTHING_KNOWN: Mapping[int, int] = MappingProxyType({})

_Version = tuple[ContentRef[torch.Tensor], int]


class DigestObserver:
    """Adds digests to the step in progress, see `core.digests`.

    Attributes:
        active: whether tensors are inspected; False if no digest is stored.
        every_tensor: inspect gradients, weights and buffers at every step.
        pending: digests of loaded batches, for the next training forward pass.
    """

    def __init__(self, job: Job) -> None:
        self.active = job.config.capture != "off"
        self._job = job
        recorder = job.recorder
        self._captures, self._notes = recorder.captures, recorder.notes
        self.pending: list[tuple[str, float]] = []
        self._seen: dict[int, _Version] = {}
        self._given: dict[int, _Version] = {}
        self._random = RandomDigests(job.random_states)
        self._evaluated = False
        self._step = -1
        self._forwards = 0
        self._reported: dict[int, int] = {}
        self._states: ByIdentity[nn.Module, ModelState] = ByIdentity()
        self._stated: ByIdentity[torch.Tensor, bool] = ByIdentity()
        self._told_in = -1
        self._stated_now: set[int] = set()
        self._applied_now: dict[int, weakref.ref[torch.Tensor]] = {}
        self._applied_before: list[weakref.ref[torch.Tensor]] = []
        self._stepped: ByIdentity[Optimizer, bool] = ByIdentity()
        self.every_tensor = False

    # Inputs

    def loaded(self, loader: str, tensors: Sequence[Placed]) -> None:
        """Handle a batch from a loader; it counts for the next training forward pass.

        Args:
            loader: its label.
            tensors: tensors of the batch, with their places in it.
        """
        if not self.active:
            return
        if self._evaluated:
            self.forget_loaded()
        self._begin_step()
        placed = [(f"batch:{loader}.{p}" if p else f"batch:{loader}", t) for p, t in tensors]
        del self.pending[: -(MICRO_BATCHES - 1) * TENSORS]
        self.pending += self._of_batch(placed, loader)
        self._given |= {id(t): self._seen[id(t)] for _, t in placed if id(t) in self._seen}

    def called(self, arguments: Sequence[Placed], from_loader: bool, trains: bool) -> None:
        """Handle the first model call of a step.

        Args:
            arguments: its tensors, by argument name.
            from_loader: they came from a loader.
            trains: autograd records the forward pass.
        """
        if not self.active:
            return
        if not trains:  # may be a teacher, called before the trained model
            self._evaluated = True
            return
        if self._evaluated and not from_loader:
            self.forget_loaded()
        self._begin_step()
        self._seen |= self._given
        found = self.pending
        self.forget_loaded()
        self._forwards += 1
        if self._forwards > MICRO_BATCHES:
            return
        if not from_loader:
            placed = [(f"input:{n}", t) for n, t in arguments if not t.requires_grad]
            found += self._of_batch(placed, "input")
        for owner, number in self._random.read():
            found.append((owner, as_scalar(number)))
        owners, values = zip(*found, strict=True)
        self._notes.number_of_each(DIGEST, owners, values)

    def loss_called(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Handle the return of a framework loss in training.

        Args:
            args: positional arguments; the first is the prediction.
            kwargs: keyword arguments.
        """
        if not self.active or self._forwards > MICRO_BATCHES:
            return
        others = [value for name, value in kwargs.items() if name != "input"] if kwargs else ()
        targets = []
        for value in (*args[1:], *others):
            if isinstance(value, torch.Tensor) and is_countable(value) and not value.requires_grad:
                targets.append(("target", value))
        for owner, value in self._of_batch(targets):
            self._notes.scalar(DIGEST, owner, value)

    # State

    def model_called(self, module: nn.Module) -> None:
        """Handle a training call to a model: record its state before its first step."""
        root = self._job.book.root_of(module) if self.active else None
        if root is None:
            return
        last, step = self._reported.get(root.index), self._job.grouper.step
        if last is not None and not (self.every_tensor and last < step):
            return
        whole = root.module()
        if whole is not None:
            self._reported[root.index] = step
            self._forget_told()
            state = self._state(root, whole)
            # Updates of the previous step are reported when they are applied, and are read only
            # once.
            applied = {id(reference()) for reference in self._applied_before}
            told = [placed for placed in state if id(placed[1]) not in applied]
            self._state_told(told)
            self._report_state(told)

    def wants(self, optimizer: Optimizer) -> bool:
        """Return whether digests are due for an optimizer that is about to step."""
        return self.active and (self.every_tensor or optimizer not in self._stepped)

    def reducer(self) -> DigestingReducer | None:
        """Return a reducer that reads each gradient of a step only once.

        None if this saves nothing.
        """
        if not (self.active and self.every_tensor) or self._captures.rows.device is not None:
            return None
        return DigestingReducer()

    def stepping(
        self, optimizer: Optimizer, named: Sequence[Placed], reducer: DigestingReducer | None
    ) -> None:
        """Handle the start of an optimizer step.

        Args:
            optimizer: the optimizer.
            named: its parameters by name.
            reducer: has reduced its gradients and weights, if any were due.
        """
        self._stepped[optimizer] = True
        self._forget_told()
        known = reducer.digests if reducer is not None else NOTHING_KNOWN
        bare = [(_owner(n), p) for n, p in self._unstated(named)]
        self._state_told(bare)
        self._report(bare, known)
        if self.every_tensor:
            new = [(n, p) for n, p in named if id(p) not in self._applied_now]
            self._applied_now |= {id(p): OwnRef(p) for _, p in new}
            gradients = [(f"gradient:{n}", p.grad) for n, p in new if p.grad is not None]
            self._report(gradients, known)

    # Details

    def _unstated(self, named: Sequence[Placed]) -> list[Placed]:
        """Return the values not yet reported in this step; a whole model is reported only once."""
        if self.every_tensor:
            told = self._stated_now
            return [placed for placed in named if id(placed[1]) not in told]
        return [placed for placed in named if placed[1] not in self._stated]

    def _state_told(self, placed: Sequence[Placed]) -> None:
        if self.every_tensor:
            self._stated_now.update([id(tensor) for _, tensor in placed])
        else:
            for _, tensor in placed:
                self._stated[tensor] = True

    def _forget_told(self) -> None:
        """Reset the state at the start of a step."""
        if self._told_in != self._job.grouper.step:
            follows = self._told_in == self._job.grouper.step - 1
            self._applied_before = list(self._applied_now.values()) if follows else []
            self._told_in, self._applied_now = self._job.grouper.step, {}
            self._stated_now.clear()

    def forget_loaded(self) -> None:
        """Discard loaded batches that are not part of the next training step."""
        self.pending, self._given, self._evaluated = [], {}, False

    def _begin_step(self) -> None:
        if self._step != self._job.grouper.step:
            self._step, self._forwards = self._job.grouper.step, 0
            self._seen.clear()

    def _of_batch(self, placed: Sequence[Placed], label: str = "") -> list[tuple[str, float]]:
        """Return digests of a batch's tensors that are new in this step, and of their rows."""
        found: list[tuple[str, float]] = []
        rows: list[npt.NDArray[np.uint8]] = []
        size = 0
        for owner, tensor in placed[:TENSORS]:
            if not (tensor.is_cpu or self.every_tensor) or self._is_known(tensor):
                continue
            data = _bytes(tensor)
            found.append((owner, as_scalar(_digest(tensor, data))))
            if label and tensor.ndim and tensor.shape[0]:
                part = data.reshape(tensor.shape[0], -1)
                if not rows or len(part) == len(rows[0]):
                    rows.append(part)
                    size += part.size
        if rows and len(rows[0]) <= ROWS_MOST and size <= ROWS_BYTES:
            joined = np.concatenate(rows, axis=1) if len(rows) > 1 else rows[0]
            found.append((ROWS + label, as_scalar(rows_sum(joined))))
        return found

    def _is_known(self, tensor: torch.Tensor) -> bool:
        """Return whether a tensor was already inspected in this step and has not changed since."""
        if tensor.is_inference():  # has no version counter
            return False
        number, version = id(tensor), tensor._version
        entry = self._seen.get(number)
        self._seen[number] = ContentRef(tensor), version
        if entry is None or entry[0].swapped:
            return False
        return entry[0]() is tensor and entry[1] == version

    def _state(self, root: Root, module: nn.Module) -> list[Placed]:
        known = self._states.get(module)
        placed = known.tensors() if known is not None else None
        if placed is None:
            state = self._states[module] = ModelState(module, root.prefix)
            placed = state.tensors() or []
        return placed

    def _report_state(self, placed: Sequence[Placed]) -> None:
        if not self.every_tensor:
            size = sum(t.numel() * t.element_size() for _, t in placed if t.device.type == "cpu")
            if size > STATE_BYTES:
                size_gib, most = size / 2**30, STATE_BYTES >> 30
                reason = (
                    f"the model is {size_gib:.1f} GiB large; only models up to {most} are hashed"
                )
                step = self._job.grouper.step
                self._notes.blind(step, "digests of the first weights", reason)
                return
        self._report(placed)

    def _report(self, placed: Sequence[Placed], known: Mapping[int, int] = NOTHING_KNOWN) -> None:
        """Report the digests of tensors.

        Args:
            placed: tensors by their owners.
            known: digests that are already computed, by identity of the tensor.
        """
        if not placed or not shows_values():
            return
        if known:
            found = [(owner, known[id(t)]) for owner, t in placed if id(t) in known]
            digest_T = np.array([digest for _, digest in found], np.uint64)
            self._notes.number_of_each(DIGEST, [owner for owner, _ in found], as_scalars(digest_T))
            placed = [(owner, t) for owner, t in placed if id(t) not in known]
            if not placed:
                return
        digest_T, taken_T = compiled.digests([t for _, t in placed])
        owners = [owner for owner, _ in placed]
        self._notes.number_of_each(
            DIGEST, list(compress(owners, taken_T)), as_scalars(digest_T[taken_T])
        )
        self._report_others(list(compress(placed, ~taken_T)))

    def _report_others(self, placed: Sequence[Placed]) -> None:
        """Report tensors that are not in plain host memory.

        Tensors on a device are copied in one transfer.
        """
        there: list[Placed] = []
        for owner, tensor in placed:
            values = tensor if type(tensor) in (torch.Tensor, nn.Parameter) else local(tensor)
            if not is_countable(values):  # no values, or a subclass with its own behavior
                continue
            if values.device.type == "cpu" or values.layout is not torch.strided:
                self._notes.scalar(DIGEST, owner, as_scalar(_digest(values, _bytes(values))))
            else:
                there.append((owner, values))
        for (owner, _), number in zip(there, bit_sums([t for _, t in there]), strict=True):
            self._notes.scalar(DIGEST_SUM, owner, as_scalar(number))


@functools.lru_cache(maxsize=1 << 14)
def _owner(name: str) -> str:
    """Return the digest's name of a parameter; called for all of them at every step."""
    return f"{value_kind(name)}:{name}"


def _digest(tensor: torch.Tensor, data: npt.NDArray[np.uint8]) -> int:
    if tensor.is_quantized:
        dtype, shape, _ = describe(tensor)
        return digest_bytes(data, dtype, shape)
    return digest_bytes(data, type_name(tensor.dtype), tensor.shape)


def _bytes(tensor: torch.Tensor) -> npt.NDArray[np.uint8]:
    """Return the bytes of a tensor in C order, without a copy if it is contiguous."""
    lying = bytes_in_place(tensor)
    return lying if lying is not None else bytes_of(tensor)
