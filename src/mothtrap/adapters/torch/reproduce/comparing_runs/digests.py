"""Digests of what goes into each step, so that two runs can be compared bit by bit.

At every step: the batch, the targets of losses, and random states; once: the weights and
buffers before a model is first trained. With `every_tensor` also gradients, weights and
buffers at every step. What lies on an accelerator is looked at only then, and once.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from torch.nn.parameter import is_lazy
from torch.optim import Optimizer

from mothtrap.adapters.torch.identity import ByIdentity
from mothtrap.adapters.torch.naming import Root, strip_wrappers
from mothtrap.adapters.torch.readable import is_plain
from mothtrap.adapters.torch.reproduce.comparing_runs.randomdigests import RandomDigests
from mothtrap.core.digests import DIGEST, DIGEST_SUM, ROWS, as_scalar
from mothtrap.statistics.digest import digest_bytes, rows_sum
from mothtrap.statistics.torch.dtypes import type_name
from mothtrap.statistics.torch.fingerprint import bit_sums
from mothtrap.statistics.torch.in_place import bytes_in_place
from mothtrap.statistics.torch.plain import local
from mothtrap.statistics.torch.raw import bytes_of, describe

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job import Job

MICRO_BATCHES = 16
"""Forwards of a step whose inputs and random states are looked at."""
TENSORS = 16
"""Tensors of a batch that are looked at."""
ROWS_MOST, ROWS_BYTES = 256, 1 << 20
"""Rows and bytes of a batch whose rows are looked at one by one: 60 microseconds at most."""
STATE_BYTES = 2 << 30
"""Bytes of a model on the host whose first state is looked at: about a quarter of a second."""

Placed = tuple[str, torch.Tensor]
_Version = tuple[weakref.ref[torch.Tensor], int]


class DigestWatch:
    """Adds digests to the step in progress, see `core.digests`.

    Attributes:
        active: whether anything is looked at; not where nothing is stored.
        every_tensor: look at gradients, weights and buffers at every step.
    """

    def __init__(self, job: Job) -> None:
        self.active = job.config.capture != "off"
        self._job, self._recorder = job, job.recorder
        self._loaded: list[tuple[str, float]] = []
        self._seen: dict[int, _Version] = {}
        self._given: dict[int, _Version] = {}
        self._random = RandomDigests(job.random_states)
        self._evaluated = False
        self._step = -1
        self._forwards = 0
        self._told: dict[int, int] = {}
        self._stated: ByIdentity[torch.Tensor, int] = ByIdentity()
        self._applied: ByIdentity[torch.Tensor, int] = ByIdentity()
        self._stepped: ByIdentity[Optimizer, bool] = ByIdentity()
        self.every_tensor = False

    # What goes in

    def loaded(self, loader: str, tensors: Sequence[Placed]) -> None:
        """A loader gave a batch; it counts for the next forward that trains.

        Args:
            loader: its label.
            tensors: of the batch, with their places in it.
        """
        if not self.active:
            return
        if self._evaluated:
            self._forget_loaded()
        self._begin_step()
        placed = [(f"batch:{loader}.{p}" if p else f"batch:{loader}", t) for p, t in tensors]
        del self._loaded[: -(MICRO_BATCHES - 1) * TENSORS]
        self._loaded += self._of_batch(placed, loader)
        self._given |= {id(t): self._seen[id(t)] for _, t in placed if id(t) in self._seen}

    def called(self, arguments: Sequence[Placed], from_loader: bool, trains: bool) -> None:
        """The first model of a step is called by user code.

        Args:
            arguments: its tensors, by the names of its arguments.
            from_loader: they came from a loader.
            trains: autograd records the forward.
        """
        if not self.active:
            return
        if not trains:  # maybe a teacher, before the model that is trained
            self._evaluated = True
            return
        if self._evaluated and not from_loader:
            self._forget_loaded()
        self._begin_step()
        self._seen |= self._given
        loaded = self._loaded
        self._forget_loaded()
        self._forwards += 1
        if self._forwards > MICRO_BATCHES:
            return
        for owner, value in loaded:
            self._recorder.scalar(DIGEST, owner, value)
        if not from_loader:
            placed = [(f"input:{n}", t) for n, t in arguments if not t.requires_grad]
            for owner, value in self._of_batch(placed, "input"):
                self._recorder.scalar(DIGEST, owner, value)
        for owner, number in self._random.read():
            self._recorder.scalar(DIGEST, owner, as_scalar(number))

    def loss_called(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """A loss of the framework that is trained on returned.

        Args:
            args: positional arguments; the first is the prediction.
            kwargs: the others.
        """
        if not self.active or self._forwards > MICRO_BATCHES:
            return
        given = [*args[1:], *(value for name, value in kwargs.items() if name != "input")]
        tensors = [t for t in given if isinstance(t, torch.Tensor)]
        targets = [("target", t) for t in tensors if is_plain(t) and not t.requires_grad]
        for owner, value in self._of_batch(targets):
            self._recorder.scalar(DIGEST, owner, value)

    # State

    def model_called(self, module: nn.Module) -> None:
        """A model is called, to be trained: look at its state before its first step."""
        root = self._job.book.root_of(module) if self.active else None
        whole = root.module() if root is not None else None
        if root is None or whole is None:
            return
        last, step = self._told.get(root.index), self._job.grouper.step
        if last is None or (self.every_tensor and last < step):
            self._told[root.index] = step
            self._tell_state(list(self._state(root, whole)))

    def wants(self, optimizer: Optimizer) -> bool:
        """Whether there is something to tell of an optimizer that is about to step."""
        return self.active and (self.every_tensor or optimizer not in self._stepped)

    def stepping(self, optimizer: Optimizer, named: Sequence[Placed]) -> None:
        """An optimizer is about to step.

        Args:
            optimizer: which.
            named: its parameters by name.
        """
        self._stepped[optimizer] = True
        step = self._job.grouper.step
        bare = [(f"weight:{n}", p) for n, p in named if self._last_told(p, self._stated) < step]
        for _, parameter in bare:
            self._stated[parameter] = step
        self._tell(bare)
        if self.every_tensor:
            new = [(n, p) for n, p in named if self._last_told(p, self._applied) < step]
            for _, parameter in new:
                self._applied[parameter] = step
            self._tell([(f"gradient:{n}", p.grad) for n, p in new if p.grad is not None])

    # How

    def _last_told(self, parameter: torch.Tensor, told: ByIdentity[torch.Tensor, int]) -> int:
        """The step at which a parameter was told of; of a whole model once is enough."""
        last = told.get(parameter)
        if last is None:
            return -1
        return last if self.every_tensor else self._job.grouper.step

    def _forget_loaded(self) -> None:
        self._loaded, self._given, self._evaluated = [], {}, False

    def _begin_step(self) -> None:
        if self._step != self._job.grouper.step:
            self._step, self._forwards = self._job.grouper.step, 0
            self._seen.clear()

    def _of_batch(self, placed: Sequence[Placed], label: str = "") -> list[tuple[str, float]]:
        """Digests of tensors that were not seen in this step yet, and of their rows."""
        found, rows = [], []
        for owner, tensor in placed[:TENSORS]:
            if not (tensor.is_cpu or self.every_tensor) or self._is_known(tensor):
                continue
            data = _bytes(tensor)
            found.append((owner, as_scalar(_digest(tensor, data))))
            if label and tensor.ndim and tensor.shape[0]:
                rows.append(data.reshape(tensor.shape[0], -1))
        if rows:
            together = [part for part in rows if len(part) == len(rows[0])]
            size = sum(part.size for part in together)
            if len(rows[0]) <= ROWS_MOST and size <= ROWS_BYTES:
                joined = np.concatenate(together, axis=1) if len(together) > 1 else rows[0]
                found.append((ROWS + label, as_scalar(rows_sum(joined))))
        return found

    def _is_known(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor was looked at in this step, and is as it was then."""
        if tensor.is_inference():  # has no version
            return False
        number, version = id(tensor), tensor._version
        entry = self._seen.get(number)
        if entry is not None and entry[0]() is tensor and entry[1] == version:
            return True
        self._seen[number] = weakref.ref(tensor), version
        return False

    def _state(self, root: Root, module: nn.Module) -> Iterator[Placed]:
        made = ((n, p) for n, p in module.named_parameters() if not is_lazy(p))
        for name, parameter in made:  # the others are told of before the first step
            own = strip_wrappers(name)
            kind = "bias" if own.rpartition(".")[2].startswith("bias") else "weight"
            self._stated[parameter] = self._job.grouper.step
            yield f"{kind}:{root.prefix}{own}", parameter
        for name, buffer in module.named_buffers():
            if not is_lazy(buffer):
                yield f"buffer:{root.prefix}{strip_wrappers(name)}", buffer

    def _tell_state(self, placed: Sequence[Placed]) -> None:
        size = sum(t.numel() * t.element_size() for _, t in placed if t.device.type == "cpu")
        if size > STATE_BYTES and not self.every_tensor:
            reason = f"the model has {size / 2**30:.1f} GiB; at most {STATE_BYTES >> 30} are hashed"
            step = self._job.grouper.step
            self._recorder.blind(step, "digests of the first weights", reason)
            return
        self._tell(placed)

    def _tell(self, placed: Sequence[Placed]) -> None:
        """Tell the digests of tensors; those on a device are brought over in one transfer."""
        there: list[Placed] = []
        for owner, tensor in placed:
            values = tensor if type(tensor) in (torch.Tensor, nn.Parameter) else local(tensor)
            if not is_plain(values):  # of no values, or of a type with ways of its own
                continue
            if values.device.type == "cpu" or values.layout is not torch.strided:
                self._recorder.scalar(DIGEST, owner, as_scalar(_digest(values, _bytes(values))))
            else:
                there.append((owner, values))
        for (owner, _), number in zip(there, bit_sums([t for _, t in there]), strict=True):
            self._recorder.scalar(DIGEST_SUM, owner, as_scalar(number))


def _digest(tensor: torch.Tensor, data: npt.NDArray[np.uint8]) -> int:
    if tensor.is_quantized:
        dtype, shape, _ = describe(tensor)
        return digest_bytes(data, dtype, shape)
    return digest_bytes(data, type_name(tensor.dtype), tensor.shape)


def _bytes(tensor: torch.Tensor) -> npt.NDArray[np.uint8]:
    """The bytes of a tensor in C order, where they lie if they lie so."""
    lying = bytes_in_place(tensor)
    return lying if lying is not None else bytes_of(tensor)
