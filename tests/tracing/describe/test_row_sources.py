from __future__ import annotations

from typing import Any

import numpy as np

from mothtrap.tracing.describe.row_sources import RowSource, RowSources

Array = np.ndarray


def view(value: Any) -> Array | None:
    return value if isinstance(value, np.ndarray) and value.ndim > 1 else None


class Batches:
    def __init__(self, x: Array) -> None:
        self.x = x


def found(sources: RowSources, rows: Array) -> tuple[str, int] | None:
    source = sources.find(rows)
    return (source.name, source.rows) if source is not None else None


def test_names_the_smallest_variable_with_all_rows() -> None:
    everything = np.random.default_rng(0).normal(size=(100, 6))
    train = everything[:80].copy()
    sources = RowSources(view)
    sources.remember(4, 6)
    assert found(sources, train[[3, 40]]) == ("train", 80)
    assert found(sources, everything[[3, 90]]) == ("everything", 100)
    assert found(sources, train[:2] + 1) is None


def test_searches_parts_of_variables() -> None:
    random = np.random.default_rng(0)
    batches = Batches(random.normal(size=(50, 6)))
    split = {"train": random.normal(size=(40, 6))}
    pair = (random.normal(size=(30, 6)), np.zeros(30))
    sources = RowSources(view)
    sources.remember(4, 6)
    assert found(sources, batches.x[:2]) == ("batches.x", 50)
    assert found(sources, split["train"][:2]) == ("split['train']", 40)
    assert found(sources, pair[0][:2]) == ("pair[0]", 30)


def test_compares_rows_of_another_shape_and_type() -> None:
    images = np.random.default_rng(0).normal(size=(50, 3, 4))
    sources = RowSources(view)
    sources.remember(4, 12)
    assert found(sources, images[:2].reshape(2, 12).astype(np.float32)) == ("images", 50)


def test_a_variable_that_changes_or_is_gone_is_no_source() -> None:
    buffer = np.random.default_rng(0).normal(size=(50, 6))
    batch = buffer[:8].copy()
    sources = RowSources(view)
    sources.remember(4, 6)
    rows = batch[:2].copy()
    del batch
    assert found(sources, rows) == ("buffer", 50)
    buffer[:] = buffer + 1
    assert sources.find(buffer[:2]) is None


def test_the_empty_part_of_a_buffer_does_not_count() -> None:
    buffer = np.zeros((200_000, 3))
    buffer[:1000] = np.random.default_rng(0).normal(size=(1000, 3))
    sources = RowSources(view)
    sources.remember(4, 3)
    source = sources.find(buffer[:3])
    assert source is not None
    assert 900 < source.rows < 1100


def test_counts_distinct_rows() -> None:
    flags = np.random.default_rng(0).integers(0, 2, size=(500, 3)).astype(float)
    sources = RowSources(view)
    sources.remember(4, 3)
    assert sources.find(flags[:3]) == RowSource("flags", 8)
