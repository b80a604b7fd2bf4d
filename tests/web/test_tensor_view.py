"""Answers about one tensor: distribution, statistics, values, pictures, confusion."""

from __future__ import annotations

import json
import struct
import zlib
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pytest
from tests.web.conftest import Site
from tests.web.deep_runs import MAPS, counts, kept

from mothtrap.web.pictures import BLUE, GRAY, ORANGE, signed
from mothtrap.web.png import montage, png, pooled


def ask(site: Site, what: str, tensor: str, **wanted: Any) -> Any:
    query = urlencode({"run": "values", "tensor": tensor, **wanted}, doseq=True)
    return site.json(f"/api/{what}?{query}")


def pixels(data: bytes) -> np.ndarray:
    """The pixels of a PNG file as this package writes it."""
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    width, height, _, color = struct.unpack(">IIBB", data[16:26])
    length = struct.unpack(">I", data[33:37])[0]
    channels = {0: 1, 2: 3, 6: 4}[color]
    lines = np.frombuffer(zlib.decompress(data[41 : 41 + length]), np.uint8)
    return lines.reshape(height, 1 + width * channels)[:, 1:].reshape(height, width, channels)


def picture(site: Site, tensor: str, name: str, sample: int = 0) -> np.ndarray:
    query = urlencode({"run": "values", "tensor": tensor, "as": name, "at": 0, "sample": sample})
    status, headers, body = site.ask(f"/api/picture?{query}")
    assert (status, headers["content-type"]) == (200, "image/png")
    return pixels(body)


def distribution(site: Site, tensor: str) -> tuple[Any, np.ndarray]:
    """The head and the codes of a distribution over all steps."""
    _, _, body = site.ask(f"/api/hist?{urlencode({'run': 'values', 'tensor': tensor})}")
    length = int.from_bytes(body[:4], "little")
    head = json.loads(body[4 : 4 + length])
    change = np.frombuffer(body, np.uint8, offset=4 + length).reshape(-1, head["columns"])
    return head, np.cumsum(change, axis=1, dtype=np.uint8)


def test_an_evaluation_after_the_last_step_is_in_the_distribution(site: Site) -> None:
    head, codes = distribution(site, MAPS)
    assert head["columns"] == 13
    assert np.flatnonzero(codes.any(axis=0)).tolist() == [0, 8, 12]


def test_a_distribution_has_the_share_of_every_band(site: Site) -> None:
    head, codes = distribution(site, "gradient:fc.weight")
    assert (head["columns"], head["of"]) == (12, "captured exponents")
    place = {band["label"]: n for n, band in enumerate(head["bands"])}
    for step in range(12):
        whole = counts(step).sum() + 40 + 3
        for label, count in (
            ("not finite", 3),
            ("0", 40),
            ("2^-20", 7),
            (f"2^{step - 10}", 100 * (step + 1)),
            (f"−2^{step - 10}", 100 * (step + 1)),
        ):
            expected = np.rint(2 + 252 * (1 + np.log10(count / whole) / 6))
            assert codes[place[label], step] == expected, (step, label)
        assert codes[place["−2^-20"], step] == 1
    assert head["bands"][0]["sort"] == "bad"


def test_facts_say_what_there_is_at_a_step(site: Site) -> None:
    found = ask(site, "tensor", "gradient:fc.weight", at=5)
    assert (found["step"], found["histogram_step"], found["raw_step"]) == (5, 5, None)
    assert found["statistics"]["l2"] == 2.0
    bars = {bar["label"]: bar["share"] for bar in found["histogram"]}
    assert bars["2^-5"] == pytest.approx(600 / (counts(5).sum() + 43))
    assert {fit["dtype"] for fit in found["fits"]} >= {"float16", "bfloat16"}
    assert ask(site, "tensor", "weight:conv.weight", at=7)["raw_step"] == 0
    assert ask(site, "tensor", "weight:conv.weight", at=9)["raw_step"] == 8
    for tensor, views in (
        ("weight:conv.weight", ["filters"]),
        ("input:model", ["images"]),
        ("activation:attn", ["attention"]),
        (MAPS, ["maps"]),
        ("output:head", ["confusion"]),
        ("weight:fc.weight", []),
    ):
        assert ask(site, "tensor", tensor)["views"] == [*views, "matrix", "channels"]


def test_values_are_pooled_and_indexed(site: Site) -> None:
    large = kept()["weight:fc.weight"]
    found = ask(site, "values", "weight:fc.weight")
    assert (found["rows"], found["columns"], found["block"]) == (300, 500, [2, 2])
    assert np.shape(found["cells"]) == (150, 250)
    assert found["cells"][17 // 2][23 // 2] is None
    block = large[100:102, 200:202].reshape(-1)
    assert found["cells"][50][100] == pytest.approx(block[np.argmax(np.abs(block))], rel=1e-6)
    mean = ask(site, "values", "weight:fc.weight", pool="mean")
    assert mean["cells"][50][100] == pytest.approx(block.astype(float).mean())
    conv = kept()["weight:conv.weight"]
    found = ask(site, "values", "weight:conv.weight", index=[5, 1])
    np.testing.assert_allclose(found["cells"], conv[5, 1], rtol=1e-6)
    channels = np.abs(conv.astype(float)).reshape(8, -1)
    expected = np.stack([channels.mean(axis=1), channels.max(axis=1)], axis=1)
    np.testing.assert_allclose(found["channels"], expected)


def test_pictures_have_the_colors_of_their_values(site: Site) -> None:
    images = kept()["input:model"]
    drawn = picture(site, "input:model", "images")
    low, high = float(images.min()), float(images.max())
    assert drawn.shape == (48, 5 * 48 + 4 * 2, 4)
    for place in range(5):
        tile = drawn[::6, 50 * place : 50 * place + 48 : 6, :3]
        expected = np.rint(255 * (images[place].astype(float) - low) / (high - low))
        np.testing.assert_array_equal(tile, np.moveaxis(expected, 0, 2))
    assert drawn[0, 48, 3] == 0
    heads = picture(site, "activation:attn", "attention")
    assert heads.shape == (132, 4 * 132 + 3 * 6, 4)
    assert picture(site, "weight:conv.weight", "filters").shape[2] == 4
    planes = kept()[MAPS][1].astype(float)
    drawn = picture(site, MAPS, "maps", sample=1)
    share = (planes / np.abs(planes).max())[..., None]
    ends = np.where(share < 0, np.array(BLUE), np.array(ORANGE))
    colors = np.rint(np.array(GRAY) + (ends - np.array(GRAY)) * np.abs(share))
    assert drawn.shape == (100, 6 * 104 - 4, 4)
    for place, color in enumerate(colors):
        np.testing.assert_array_equal(drawn[::20, 104 * place : 104 * place + 100 : 20, :3], color)


def test_outputs_and_labels_of_a_step_make_a_confusion_matrix(site: Site) -> None:
    found = ask(site, "confusion", "output:head", at=0)
    labels, outputs = kept()["label:train.py:4"], kept()["output:head"]
    expected = np.zeros((4, 4), int)
    np.add.at(expected, (labels, outputs.argmax(axis=1)), 1)
    assert found["cells"] == expected.tolist()
    assert found["right"] == int(np.trace(expected))


def test_what_was_not_captured_is_said(site: Site) -> None:
    _, _, body = site.ask("/api/hist?run=deep&tensor=gradient:head.weight")
    head = json.loads(body[4 : 4 + int.from_bytes(body[:4], "little")])
    assert (head["total"], head["moments"], head["bands"]) == (0, 0, [])
    status, _, body = site.ask("/api/values?run=deep&tensor=gradient:head.weight")
    assert status == 404
    assert "no values of gradient:head.weight were captured" in json.loads(body)["error"]
    status, _, body = site.ask("/api/picture?run=values&tensor=output:head&as=images")
    assert status == 400
    assert "16x4 cannot be shown as images" in json.loads(body)["error"]
    assert "neither exponents" in site.json("/api/tensor?run=deep&tensor=head.weight")["problem"]


def test_pixels_survive_the_file_and_infinities_are_marked() -> None:
    given = np.random.default_rng(0).integers(0, 256, (7, 5, 3)).astype(np.uint8)
    np.testing.assert_array_equal(pixels(png(given)), given)
    tiles = montage(given[None].repeat(3, axis=0), columns=2, gap=1)
    assert tiles.shape == (15, 11, 4)
    np.testing.assert_array_equal(tiles[8:15, 0:5, :3], given)
    assert tiles[8, 6, 3] == 0
    colors = signed(np.array([-2.0, 0.0, 2.0, np.inf]), 2.0)
    assert colors.tolist() == [[22, 93, 177], [238, 236, 230], [178, 76, 2], [214, 30, 190]]
    assert np.isnan(pooled(np.array([[1.0, np.nan], [3.0, 4.0]]), 1)).all()
    assert pooled(np.array([[1.0, -5.0], [3.0, 4.0]]), 1).tolist() == [[-5.0]]
