"""Answers of the API for the detailed views of a run, by address."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec
from starlette.datastructures import QueryParams

from mothtrap.core.errors import ConfigError, UnknownNameError, nearest
from mothtrap.core.steps import Mode
from mothtrap.reader.files.commits import ENDLESS
from mothtrap.reader.tensors.captured_tensors import Tensor
from mothtrap.web import checked, distributions, histograms, matrix, tensor_view
from mothtrap.web.confusion import confusion
from mothtrap.web.opened import OpenRun
from mothtrap.web.samples_view import seen


class Picture(NamedTuple):
    """A PNG file."""

    data: bytes


Answer = bytes | Picture | msgspec.Struct
"""Bytes are sent unchanged, a struct as JSON."""
Make = Callable[[OpenRun, QueryParams], Answer]


def _matrix(opened: OpenRun, query: QueryParams) -> Answer:
    first, rows = number(query, "first", 0), number(query, "rows", matrix.MOST_ROWS)
    return matrix.answer(opened, wanted_matrix(query), first, rows)


def _cell(opened: OpenRun, query: QueryParams) -> Answer:
    path, at = query.get("row", ""), number(query, "at", 0)
    return matrix.cell(opened, wanted_matrix(query), path, at)


def _column(opened: OpenRun, query: QueryParams) -> Answer:
    first, rows = number(query, "first", 0), number(query, "rows", matrix.MOST_ROWS)
    return matrix.column(opened, wanted_matrix(query), number(query, "at", 0), first, rows)


def _hist(opened: OpenRun, query: QueryParams) -> Answer:
    return distributions.answer(
        opened,
        opened.run.tensor(query.get("tensor", "")),
        mode=_mode(query),
        worker=worker_of(query),
        begin=number(query, "from", 0),
        end=number(query, "to", ENDLESS),
        most=number(query, "px", 1200),
    )


def _histograms(opened: OpenRun, query: QueryParams) -> Answer:
    return histograms.answer(opened, query.getlist("tensor"), _mode(query), worker_of(query))


def _tensor(opened: OpenRun, query: QueryParams) -> Answer:
    return tensor_view.facts(opened, *_moment(opened, query))


def _values(opened: OpenRun, query: QueryParams) -> Answer:
    index = tuple(whole_number(each, "index") for each in query.getlist("index"))
    pool = query.get("pool", "max")
    return tensor_view.values_of(*_moment(opened, query), index=index, pool=pool)


def _picture(opened: OpenRun, query: QueryParams) -> Answer:
    name, sample = query.get("as", ""), number(query, "sample", 0)
    return Picture(tensor_view.picture_of(name, *_moment(opened, query), sample=sample))


def _confusion(opened: OpenRun, query: QueryParams) -> Answer:
    return confusion(opened, *_moment(opened, query))


def _moment(opened: OpenRun, query: QueryParams) -> tuple[Tensor, int, Mode | None, int | None]:
    """The tensor, step, mode and rank that are requested."""
    tensor = opened.run.tensor(query.get("tensor", ""))
    return tensor, number(query, "at", ENDLESS), _mode(query), worker_of(query)


def _seen(opened: OpenRun, query: QueryParams) -> Answer:
    return seen(opened, query.get("sample", ""))


def _checked(opened: OpenRun, _query: QueryParams) -> Answer:
    return checked.answer(opened)


def _mode(query: QueryParams) -> Mode | None:
    return mode_of(query) if query.get("mode") else None


ANSWERS: Mapping[str, Make] = {
    "matrix": _matrix,
    "cell": _cell,
    "column": _column,
    "hist": _hist,
    "histograms": _histograms,
    "tensor": _tensor,
    "values": _values,
    "picture": _picture,
    "confusion": _confusion,
    "seen": _seen,
    "checked": _checked,
}
"""Functions that answer about a run, by the last part of the address."""


def wanted_matrix(query: QueryParams) -> matrix.Wanted:
    """Parse the request for a heatmap."""
    return matrix.Wanted(
        kind=query.get("kind", "gradient"),
        statistic=query.get("stat", "l2"),
        mode=mode_of(query),
        worker=worker_of(query),
        begin=number(query, "from", 0),
        end=number(query, "to", ENDLESS),
        most=number(query, "px", 1200),
        query=query.get("query", ""),
        opened=tuple(query.getlist("open")),
        closed=tuple(query.getlist("shut")),
        scale=query.get("scale", "log"),  # type: ignore[arg-type]  # `matrix.shown` refuses others
    )


def mode_of(query: QueryParams) -> Mode:
    """Parse a mode; the default is training."""
    text = query.get("mode", Mode.TRAIN)
    if text not in tuple(Mode):
        raise UnknownNameError(f"there is no mode {text[:40]!r}{nearest(text, list(Mode))}")
    return Mode(text)


def worker_of(query: QueryParams) -> int | None:
    """Parse a rank; None if no worker is named."""
    worker = number(query, "worker", -1)
    return None if worker < 0 else worker


def number(query: QueryParams, name: str, default: int) -> int:
    """Parse a whole number of at least -1.

    Raises:
        ConfigError: it is not a whole number.
    """
    text = query.get(name, "")
    return whole_number(text, name) if text else default


def whole_number(text: str, name: str) -> int:
    """Parse a whole number and clip it to -1 to `ENDLESS`; raises the same errors as `number`."""
    try:
        return max(-1, min(int(text), ENDLESS))
    except ValueError as err:
        raise ConfigError(f"{name} must be a whole number, not {text[:40]!r}") from err
