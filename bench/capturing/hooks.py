"""Takes mothtrap's hooks out while plain steps are made, and puts them back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from torch.optim import optimizer

from mothtrap.adapters.torch.hooks.process_hooks import ProcessHooks


@contextmanager
def hooks_out_and_in() -> Iterator[Callable[[], AbstractContextManager[None]]]:
    """Record the functions that a tool replaces; return a context that restores them for a
    while."""
    replaced: list[tuple[Any, str]] = []
    replace = ProcessHooks._replace

    def noting(self: ProcessHooks, owner: Any, name: str, make: Any) -> None:
        replaced.append((owner, name))
        replace(self, owner, name, make)

    @contextmanager
    def out() -> Iterator[None]:
        tables = optimizer._global_optimizer_pre_hooks, optimizer._global_optimizer_post_hooks
        kept = [dict(table) for table in tables]
        functions = [getattr(owner, name) for owner, name in replaced]
        for table in tables:
            table.clear()
        for owner, name in reversed(replaced):
            setattr(owner, name, getattr(owner, name).__wrapped__)
        try:
            yield
        finally:
            for table, entries in zip(tables, kept, strict=True):
                table.update(entries)
            for (owner, name), function in zip(replaced, functions, strict=True):
                setattr(owner, name, function)

    ProcessHooks._replace = noting  # type: ignore[method-assign]
    try:
        yield out
    finally:
        ProcessHooks._replace = replace  # type: ignore[method-assign]
