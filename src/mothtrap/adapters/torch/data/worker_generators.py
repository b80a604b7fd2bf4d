"""Random generators of a dataset that are copied into the worker processes of a loader.

PyTorch gives each worker process different seeds for `random`, `numpy.random` and `torch`, but a
generator that the dataset holds, or a global variable, is copied with its state. Only the code that
loads a sample is read, and nothing of it is called.
"""

from __future__ import annotations

import dis
import inspect
from types import CodeType, FunctionType
from typing import Any

from torch.utils.data import DataLoader, IterableDataset, Subset

from mothtrap.adapters.torch.data.datasets import GENERATORS

RESEEDS = frozenset(
    {"seed", "manual_seed", "initial_seed", "get_worker_info", "set_state", "setstate", "spawn"}
    | {"default_rng", "RandomState", "Generator", "Random", "SeedSequence", "jumped"}
)
"""Names in the code of a dataset that sets the seed of each sample or of each worker."""
SEEDERS = frozenset({"seed", "manual_seed", "seed_everything", "set_seed"})
"""Names of functions that set a seed."""
DIFFERENT = frozenset(
    {"initial_seed", "get_worker_info", "getpid", "urandom", "time", "time_ns", "get_state"}
    | {"randint", "random", "getrandbits", "token_bytes", "SeedSequence", "default_rng"}
)
"""Names in a function that sets a different seed in each worker."""
MODULES = frozenset({"random"})
"""Names in `DIFFERENT` that are also modules; `random.seed(0)` sets a seed."""
DEPTH, MEMBERS = 4, 16
"""Maximum depth of calls that are followed, and members of a list of transforms. By hand."""


def shared_generators(loader: DataLoader[Any]) -> tuple[str, ...]:
    """Return the names of generators that have the same state in all workers of a loader.

    Empty with fewer than two workers, with a function that starts each worker, for datasets that
    set the order themselves, and if the code sets a seed.
    """
    if loader.num_workers < 2 or loader.worker_init_fn is not None:
        return ()
    data: Any = loader.dataset
    while type(data) is Subset:
        data = data.dataset
    if isinstance(data, IterableDataset):
        return ()
    search = _Search()
    for name in ("__getitem__", "__getitems__"):
        search.method(data, name, 0)
    search.value(loader.collate_fn, 0)
    return () if search.reseeds else tuple(search.found)


def seeded_alike(loader: DataLoader[Any]) -> str:
    """Return the name of the `worker_init_fn` that sets the same seed in all workers; else "".

    It is a Python function that sets a seed, and uses neither its argument, the number of the
    worker, nor anything else that differs.
    """
    function = loader.worker_init_fn
    if loader.num_workers < 2 or not isinstance(function, FunctionType):
        return ""
    code, names = function.__code__, _names(function.__code__)
    if SEEDERS.isdisjoint(names) or not DIFFERENT.isdisjoint(names - MODULES):
        return ""
    of_worker = code.co_varnames[: code.co_argcount]
    steps = [step for step in dis.get_instructions(code) if step.opname not in ("PRECALL", "CACHE")]
    if any("FAST" in step.opname and _holds(step.argval, of_worker) for step in steps):
        return ""
    for at, step in enumerate(steps[:-1]):
        after = steps[at + 1]
        if step.argval in SEEDERS and (_is_empty_call(after) or after.argval is None):
            return ""  # no seed: each worker gets a different one
    return function.__name__


def _holds(argval: object, names: tuple[str, ...]) -> bool:
    """Return whether an instruction reads one of some variables; newer ones read two at once."""
    return any(one in names for one in (argval if isinstance(argval, tuple) else (argval,)))


def _is_empty_call(step: dis.Instruction) -> bool:
    return step.opname.startswith("CALL") and not step.arg


class _Search:
    """Follows the names in the code that loads a sample.

    Attributes:
        found: names of generators that the code uses.
        reseeds: the code sets a seed.
    """

    def __init__(self) -> None:
        self.found: dict[str, None] = {}
        self.reseeds = False
        self._seen: set[tuple[int, int]] = set()

    def method(self, owner: object, name: str, depth: int) -> None:
        """Follow a method of an object, if it is a Python function."""
        function = inspect.getattr_static(type(owner), name, None)
        if isinstance(function, FunctionType):
            self._function(owner, function, depth)

    def value(self, value: object, depth: int) -> None:
        """Follow a function, or an object or a list of objects that can be called."""
        if isinstance(value, FunctionType):
            self._function(None, value, depth)
        elif isinstance(value, list | tuple):
            for member in value[:MEMBERS]:
                self.value(member, depth)
        elif not isinstance(value, type):
            self.method(value, "__call__", depth)
            self.method(value, "forward", depth)

    def _function(self, owner: object, function: FunctionType, depth: int) -> None:
        known = id(owner), id(function)
        if known in self._seen or depth > DEPTH:
            return
        self._seen.add(known)
        names = _names(function.__code__)
        self.reseeds = self.reseeds or not RESEEDS.isdisjoint(names)
        held = getattr(owner, "__dict__", {}) if owner is not None else {}
        for name in names:
            if name in held:
                self._one(f"{type(owner).__name__}.{name}", held[name], depth)
            elif inspect.getattr_static(type(owner), name, None) is not None:
                self.method(owner, name, depth + 1)
            elif name in function.__globals__:
                self._global(name, function, depth)

    def _global(self, name: str, function: FunctionType, depth: int) -> None:
        value = function.__globals__[name]
        own = getattr(value, "__module__", None) == function.__module__
        if isinstance(value, GENERATORS):
            self.found[name] = None
        elif own and not isinstance(value, type):
            self.value(value, depth + 1)

    def _one(self, name: str, value: object, depth: int) -> None:
        if isinstance(value, GENERATORS):
            self.found[name] = None
        else:
            self.value(value, depth + 1)


def _names(code: CodeType) -> set[str]:
    """Return the names of attributes and global variables in a function and its inner functions."""
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= _names(constant)
    return found
