"""The states of all random generators, which are read at every micro-batch and can be restored.

No numbers are drawn from a generator. A state that has not changed is returned as the same object.
"""

from __future__ import annotations

import ctypes
import functools
import random
import struct
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from mothtrap.core.error_texts import first_line

Mark = tuple[int, ...]
_WORDS = 624
_CPU_BYTES, _HEAD = 5056, 6
"""Size of the state of PyTorch's CPU generator, and number of 32-bit words before the twister's."""
_TWISTER = "MT19937"
_PYTHON: Any = getattr(random.getstate, "__self__")  # noqa: B009  # of a type that is not public

_FAILURES = (*(RuntimeError, AssertionError, AttributeError), *(LookupError, ValueError, TypeError))

ACCELERATORS = ("cuda", "xpu")
"""Devices with their own generators, as `torch` names them."""


class RandomStates:
    """Reads the states of the global generators of Python, NumPy and the framework."""

    def __init__(self) -> None:
        self._python: tuple[tuple[Mark, float | None], dict[str, Any]] | None = None
        self._numpy: tuple[Mark, dict[str, Any]] | None = None
        self._devices: dict[str, tuple[bytes, npt.NDArray[Any]]] = {}
        self._read: list[tuple[str, Any]] = []

    def read(self) -> list[tuple[str, Any]]:
        """Return the state of every generator under a name: `python`, `numpy`, `cpu`, `cuda:0`...

        The states of Python and NumPy are dicts that contain arrays; a device state is an array. A
        state that has not changed since the last reading is the same object as before, and so is
        the list if nothing has changed.
        """
        python, mark = self._python, python_mark(_PYTHON)
        if python is None or not mark or python[0] != (mark, _PYTHON.gauss_next):
            version, words, gauss = random.getstate()
            packed = np.frombuffer(struct.pack(f"<{len(words)}I", *words), np.uint32)
            python = (mark, gauss), {"version": version, "words": packed, "gauss": gauss}
            self._read, self._python = [], python
        numpy, mark = self._numpy, _numpy_mark()
        # The second number of a drawn pair is stored outside of the compared words.
        if numpy is None or not mark or numpy[0] != mark or numpy[1].get("has_gauss"):
            state: Any = np.random.get_state(legacy=False)
            self._read, numpy = [], (mark, dict(state))
            self._numpy = numpy
        found: list[tuple[str, Any]] = [("python", python[1]), ("numpy", numpy[1])]
        states = [("cpu", torch.default_generator.get_state())]
        if _accelerators() or _has_mps():
            states += _device_states()
        for name, raw_state in states:
            # Bypasses the dispatcher, where a mode of the user may be active.
            size = raw_state.nbytes
            raw = (ctypes.c_char * size).from_address(raw_state.data_ptr()).raw
            known = self._devices.get(name)
            if known is None or known[0] != raw:
                self._read, known = [], (raw, _packed(raw))
                self._devices[name] = known
            found.append((name, known[1]))
        if len(self._read) != len(found):
            self._read = found
        return self._read


def restore(states: Mapping[str, Any]) -> list[str]:
    """Restore states that were read.

    Args:
        states: states by name, as `RandomStates.read` gives them.

    Returns:
        Descriptions of states that could not be restored here, such as the state of a missing
        device.
    """
    missing = []
    for name, state in states.items():
        try:
            if name == "python":
                words = tuple(int(word) for word in state["words"])
                random.setstate((state["version"], words, state["gauss"]))
            elif name == "numpy":
                np.random.set_state(state)
            else:
                _set_device_state(torch.device(name), torch.from_numpy(_unpacked(state)))
        except _FAILURES as err:
            missing.append(f"the random state of {name}: {first_line(str(err))}")
    return missing


def _packed(raw: bytes) -> npt.NDArray[Any]:
    """Halve the memory of a state whose 32-bit words are stored in 64 bits each."""
    plain = np.frombuffer(raw, np.uint8)
    if len(raw) != _CPU_BYTES:
        return plain
    halves = plain.view(np.uint32)
    words = halves[_HEAD : _HEAD + 2 * _WORDS]
    if words[1::2].any():
        return plain
    return np.concatenate([halves[:_HEAD], words[::2], halves[_HEAD + 2 * _WORDS :]])


def _unpacked(state: Any) -> npt.NDArray[np.uint8]:
    packed = np.array(state)
    if packed.dtype == np.uint8:
        return packed
    halves = np.zeros(_CPU_BYTES // 4, np.uint32)
    halves[:_HEAD], halves[_HEAD + 2 * _WORDS :] = packed[:_HEAD], packed[_HEAD + _WORDS :]
    halves[_HEAD : _HEAD + 2 * _WORDS : 2] = packed[_HEAD : _HEAD + _WORDS]
    return halves.view(np.uint8)


def _device_states() -> list[tuple[str, torch.Tensor]]:
    """Return the generator states of accelerators."""
    found = []
    for kind, module in _accelerators():
        # Querying a device that is not in use would initialize it.
        if not module.is_initialized() or _is_capturing(kind):
            continue
        for place, generator in enumerate(module.default_generators):
            found.append((f"{kind}:{place}", generator.get_state()))
    if _has_mps():
        found.append(("mps:0", torch.mps.get_rng_state()))
    return found


def _is_capturing(kind: str) -> bool:
    return kind == "cuda" and torch.cuda.is_current_stream_capturing()


@functools.cache
def _accelerators() -> tuple[tuple[str, Any], ...]:
    """Return the devices that this build of the framework supports, present or not."""
    modules = ((kind, getattr(torch, kind, None)) for kind in ACCELERATORS)
    return tuple((k, m) for k, m in modules if m is not None and m._is_compiled())


@functools.cache
def _has_mps() -> bool:
    return torch.backends.mps.is_available()


def _set_device_state(device: torch.device, state: torch.Tensor) -> None:
    if device.type == "cpu":
        torch.default_generator.set_state(state)
    elif device.type == "mps":
        torch.mps.set_rng_state(state)
    else:
        module: Any = getattr(torch, device.type)
        module.init()
        module.default_generators[device.index or 0].set_state(state)


def python_mark(generator: random.Random) -> Mark:
    """Return a marker of a Python generator's state; empty if it cannot be read.

    It contains the position in the generator's words, and a few of these words, which are all
    regenerated together. It does not contain `gauss_next`, the generator's stored normal number.
    Requesting the complete state would create 625 objects, at thirty times the cost.
    """
    if type(generator) is not random.Random or not _lies_as_known():
        return ()
    state = _memory(id(generator) + object.__basicsize__)  # the position, and the words
    return state[0], state[1], state[2], state[_WORDS]


@functools.cache
def _lies_as_known() -> bool:
    if sys.implementation.name != "cpython":
        return False
    own: type = random.Random.__bases__[0]  # the part that is implemented in C
    if own.__basicsize__ < object.__basicsize__ + 4 + 4 * _WORDS:
        return False
    sample = random.Random(0)
    words = sample.getstate()[1]
    raw = ctypes.string_at(id(sample) + object.__basicsize__, 4 + 4 * _WORDS)
    position, *others = struct.unpack(f"i{_WORDS}I", raw)
    return bool((*others, position) == words)


def _numpy_mark() -> Mark:
    generator = np.random.get_bit_generator()  # type: ignore[attr-defined]
    if type(generator).__name__ != _TWISTER:
        return ()
    state = _memory(generator.ctypes.state_address)  # the words, and the position
    return state[_WORDS], state[0], state[1], state[_WORDS - 1]


@functools.lru_cache(maxsize=8)
def _memory(address: int) -> ctypes.Array[ctypes.c_uint32]:
    return (ctypes.c_uint32 * (_WORDS + 1)).from_address(address)
