"""Calls that fail on their own, and outcomes for comparing two such calls."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from mothtrap.adapters.torch.origin.badness import has_values
from mothtrap.statistics.torch.in_place import as_array

DIGEST_BYTES = 8
"""Size of the digest of a result; 64 bits are enough to compare two results."""

MAX_BITS = 4096
"""Maximum number of bad values whose bits are compared; two or three patterns are usual."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FailingCall:
    """A function with arguments for which it fails.

    Attributes:
        name: source of an expression for the function, e.g. `torch.log`.
        function: the function.
        args, kwargs: its arguments; tensors may be in lists.
    """

    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    def with_arguments(self, change: Callable[[torch.Tensor], torch.Tensor]) -> FailingCall:
        """Return the same call with different tensors."""
        made: dict[int, torch.Tensor] = {}

        def once(tensor: torch.Tensor) -> torch.Tensor:
            if id(tensor) not in made:
                made[id(tensor)] = change(tensor)
            return made[id(tensor)]

        args, kwargs = mapped((self.args, dict(self.kwargs)), once)
        return replace(self, args=args, kwargs=kwargs)

    def tensors(self) -> list[torch.Tensor]:
        """Return the distinct tensors among the arguments."""
        found = {id(one): one for one in tensors_in((self.args, dict(self.kwargs)))}
        return list(found.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOutcome:
    """Result of a call.

    Attributes:
        error: `Type: first line` of the exception; empty if there was none.
        digest: digest of the bits of all results, in hexadecimal digits.
        bad_bits: the bit patterns of results that are not finite, with their dtypes.
    """

    error: str = ""
    digest: str = ""
    bad_bits: frozenset[tuple[torch.dtype, bytes]] = frozenset()

    @property
    def is_bad(self) -> bool:
        """True if the call raised an exception or returned a non-finite value."""
        return bool(self.error or self.bad_bits)

    def shows(self, other: CallOutcome) -> bool:
        """Return whether this failure is the same as another one, with fewer values."""
        return self.is_bad and self.error == other.error and self.bad_bits <= other.bad_bits


def outcome_of(call: FailingCall) -> CallOutcome:
    """Run a call on copies of its arguments, and return the outcome."""
    run = call.with_arguments(_copy)
    with torch._C.DisableTorchFunction(), _disable_current_modes():
        try:
            result = run.function(*run.args, **run.kwargs)
        except Exception as err:
            return CallOutcome(error=first_line(err))
        results = list(tensors_in(result)) or run.tensors()
        return CallOutcome(
            digest=digest_of(results),
            bad_bits=frozenset(bits for one in results for bits in _bad_bits(one)),
        )


def digest_of(tensors: Sequence[torch.Tensor]) -> str:
    """Return a digest of the bits of tensors."""
    data = b"".join(bytes_of(tensor) for tensor in tensors)
    return hashlib.blake2b(data, digest_size=DIGEST_BYTES).hexdigest()


def bytes_of(tensor: torch.Tensor) -> bytes:
    """Return the bits of a tensor, row by row."""
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return as_array(flat.view(torch.uint8)).tobytes() if flat.numel() else b""


def first_line(error: BaseException) -> str:
    """Return `Type: text` of an exception in one line."""
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"


def mapped(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """Return the same containers with different tensors."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if type(value) in (list, tuple):
        return type(value)(mapped(part, change) for part in value)
    if type(value) is dict:
        return {key: mapped(part, change) for key, part in value.items()}
    return value


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors in a value, including nested lists, tuples, and dictionaries."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for part in value:
            yield from tensors_in(part)
    elif isinstance(value, dict):
        for part in value.values():
            yield from tensors_in(part)


def _bad_bits(tensor: torch.Tensor) -> Iterator[tuple[torch.dtype, bytes]]:
    if not has_values(tensor):
        return
    wide = tensor.detach().float() if tensor.itemsize == 1 else tensor.detach()
    bad = tensor.detach().contiguous()[~torch.isfinite(wide)]
    if bad.numel():
        patterns = bad.reshape(-1, 1).view(torch.uint8)
        yield from {(tensor.dtype, bytes(pattern)) for pattern in patterns[:MAX_BITS].tolist()}


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().clone().requires_grad_(tensor.requires_grad)
