"""Heatmaps of the API: the tree of modules, cells and their codes, against numpy."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pytest
from tests.web.conftest import Site
from tests.web.deep_runs import NAMES, STEPS, captured, norms

from mothtrap.web.module_tree import rows_of, tree


def cells(site: Site, run: str = "deep", **wanted: Any) -> tuple[dict[str, Any], np.ndarray]:
    """The head of a heatmap and its codes, shape (R, C)."""
    query = urlencode({"run": run, **wanted}, doseq=True)
    status, _, body = site.ask(f"/api/matrix?{query}")
    assert status == 200, body
    length = int.from_bytes(body[:4], "little")
    head = json.loads(body[4 : 4 + length])
    change = np.frombuffer(body, np.uint8, offset=4 + length).reshape(-1, head["columns"])
    return head, np.cumsum(change, axis=1, dtype=np.uint8)


def expected_codes(low: float, high: float, value_ST: np.ndarray) -> np.ndarray:
    """Codes on the logarithmic scale, shape (T, S), as the page is to show them."""
    value_TS, there_TS = value_ST.T, captured().T
    with np.errstate(divide="ignore"):
        place = 252 * np.log(value_TS / low) / np.log(high / low)
    codes = 2 + np.clip(np.nan_to_num(3 * np.rint(place / 3)), 0, 252)
    codes = np.where(value_TS == 0, 1, np.where(np.isnan(value_TS), 255, codes))
    return np.where(there_TS, codes, 0).astype(np.uint8)


def test_each_cell_has_the_code_of_its_number(site: Site) -> None:
    head, codes = cells(site)
    assert (head["begin"], head["width"], head["columns"]) == (0, 1, STEPS)
    expected = expected_codes(head["low"], head["high"], norms())
    leaves = [place for place, row in enumerate(head["rows"]) if row["open"] is None]
    assert [head["rows"][place]["path"] for place in leaves] == list(NAMES)
    np.testing.assert_array_equal(codes[leaves], expected)


def test_a_closed_module_shows_its_worst_tensor(site: Site) -> None:
    head, codes = cells(site, shut="blocks.")
    (place,) = [n for n, row in enumerate(head["rows"]) if row["path"] == "blocks."]
    worst = expected_codes(head["low"], head["high"], norms())[1:-1].max(axis=0)
    np.testing.assert_array_equal(codes[place], worst)
    assert (codes[place, 70:] == 255).all()
    assert head["total"] == 3


def test_a_zoom_and_few_columns_join_steps_by_the_peak(site: Site) -> None:
    head, codes = cells(site, **{"from": 32, "to": 64, "px": 8})
    assert (head["begin"], head["width"], head["columns"]) == (32, 4, 8)
    peaks = norms()[32:64].reshape(8, 4, -1).max(axis=1)
    place = next(n for n, row in enumerate(head["rows"]) if row["path"] == NAMES[1])
    expected = 2 + np.clip(
        3 * np.rint(84 * np.log(peaks[:, 1] / head["low"]) / np.log(head["high"] / head["low"])),
        0,
        252,
    )
    np.testing.assert_array_equal(codes[place], expected)


@pytest.mark.parametrize("scale", ["rank", "own"])
def test_other_scales_keep_the_order_of_numbers(site: Site, scale: str) -> None:
    head, codes = cells(site, scale=scale)
    place = next(n for n, row in enumerate(head["rows"]) if row["path"] == NAMES[0])
    order = np.argsort(norms()[:, 0])
    assert (np.diff(codes[place, order].astype(int)) >= 0).all()
    if scale == "own":
        assert head["low"] == pytest.approx(1 / head["high"])
        middle = order[STEPS // 2]
        assert abs(int(codes[place, middle]) - 128) <= 2


def test_a_cell_and_a_column_have_the_exact_numbers(site: Site) -> None:
    found = site.json(f"/api/cell?run=deep&row={NAMES[3]}&at=40")
    assert found["value"] == pytest.approx(norms()[40, 3], rel=1e-6)
    own = norms()[:, 3]
    assert found["median"] == pytest.approx(np.median(own), rel=1e-6)
    worst = site.json("/api/cell?run=deep&shut=blocks.&row=blocks.&at=80")
    assert (worst["tensor"], worst["bad"], worst["others_bad"]) == (NAMES[5], 1, 1)
    column = site.json("/api/column?run=deep&at=40&first=0&rows=4&query=head")
    assert column["paths"] == ["head.weight"]
    assert column["values"] == [None]


def test_ranks_and_rows_are_chosen(site: Site) -> None:
    found = site.json(f"/api/cell?run=ranks&row={NAMES[1]}&at=7&worker=5")
    assert found["value"] == pytest.approx(norms(5)[7, 1], rel=1e-6)
    head, codes = cells(site, "wide", open="blocks.", first=5000, rows=100)
    assert (head["total"], head["first"], codes.shape) == (10_001, 5000, (100, 4))
    assert head["rows"][0]["path"] == "blocks.4999.weight"


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("stat=l3", "there is no statistic 'l3' (did you mean 'l2'?)"),
        ("scale=loud", "a scale is one of log, rank, own"),
        ("mode=trian", "there is no mode 'trian'"),
        ("worker=9", "there is no rank 9"),
        ("px=many", "px must be a whole number"),
    ],
)
def test_what_is_not_there_is_named(site: Site, wanted: str, said: str) -> None:
    status, _, body = site.ask(f"/api/matrix?run=deep&{wanted}")
    assert status in (400, 404)
    assert said in json.loads(body)["error"]


def test_modules_of_one_part_are_joined_and_names_of_both_sorts_stay_apart() -> None:
    root, ordered = tree(["a.b.c.weight", "a.b.c.bias", "a.b", "head"])
    assert ordered == ["a.b.c.weight", "a.b.c.bias", "a.b", "head"]
    rows = rows_of(root, (), ())
    assert [(row.path, row.label, row.depth, row.count) for row in rows] == [
        ("a.", "a", 0, 3),
        ("a.b.c.", "b.c", 1, 2),
        ("a.b.c.weight", "weight", 2, 1),
        ("a.b.c.bias", "bias", 2, 1),
        ("a.b", "b", 1, 1),
        ("head", "head", 0, 1),
    ]
    assert [row.path for row in rows_of(root, ("a.",), ("a.b.c.",), at_first=1)] == [
        "a.",
        "a.b.c.",
        "a.b",
        "head",
    ]
