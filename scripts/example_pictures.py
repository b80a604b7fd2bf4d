"""Make the pictures of docs/examples.md from real runs of the two examples.

    python scripts/example_pictures.py [FOLDER]

Requires what the browser tests require, and Pillow.
"""

from __future__ import annotations

import base64
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import page

import mothtrap
from mothtrap.web.pictures import ORANGE, cividis, signed
from mothtrap.web.png import png

ROOT = Path(__file__).parents[1]
NAMES = ("class_activation", "attention")
DIGITS = (0, 3, 4, 7, 9)
"""Of each the first scan of the evaluation is shown, of heads that of the fourth."""
EPOCHS = (1, 2, 3, 4, 6, 9, 12)
PLACES = {
    "class-activation-page": "class_activation&tensor=activation:maps&as=maps",
    "attention-page": "attention&tensor=activation:blocks.1.attention.1&as=attention",
}
STYLE = """body { margin: 0; font: 13px system-ui, sans-serif; color: #222; background: #fff }
table { border-collapse: collapse } td { padding: 3px 5px; text-align: center }
img { width: 84px; height: 84px; image-rendering: pixelated; display: block }"""
Array = npt.NDArray[Any]


def main(folder: Path) -> int:
    """Run the examples, and write a figure of each and a picture of the page."""
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        for example in NAMES:
            shutil.copytree(ROOT / "examples" / example, work / example)
            command = [*page.MOTHTRAP, "run", "--name", example, "--runs-dir", str(work / "runs")]
            subprocess.run([*command, "train.py"], cwd=work / example, check=True)
        with page.served(work) as url, page.browser() as browser:
            figure = browser.new_page(viewport={"width": 900, "height": 700})
            for title, rows in (
                ("class-activation", class_maps(work / "runs" / NAMES[0])),
                ("attention-heads", heads(work / "runs" / NAMES[1])),
            ):
                figure.set_content(document(rows))
                page.shot(figure, folder / f"{title}.png", "table")
            (folder / "latent-space.png").write_bytes(latent(work / "runs" / NAMES[0]))
            sample = first_scans(work / "runs" / NAMES[0])[3]
            for title, place in PLACES.items():
                view = browser.new_page(viewport={"width": 1200, "height": 900})
                view.goto(f"{url}#/tensors?run={place}&sample={sample}")
                drawn = view.get_by_role("region", name="Picture").get_by_role("img")
                drawn.evaluate("each => each.decode()")
                page.wait_until_read(view)
                page.shot(view, folder / f"{title}.png", "section.values")
    return 0


def first_scans(path: Path) -> list[int]:
    """Return the places of scans in the evaluation, which is that of both examples."""
    [labels] = mothtrap.open_run(path).tensors("label:*")
    label = labels.at(labels.raw_keys()[0])
    return [int(np.flatnonzero(label == digit)[0]) for digit in DIGITS]


def class_maps(path: Path) -> list[list[str]]:
    """Return a row for each scan: itself, and the map of its class after epochs."""
    run = mothtrap.open_run(path)
    maps, [scans] = run.tensor("activation:maps"), run.tensors("input:*")
    steps = sorted({key.step for key in maps.raw_keys()})
    shown = {epoch: maps.at(steps[epoch - 1]) for epoch in EPOCHS}
    rows = [["", "", *(f"epoch {epoch}" for epoch in EPOCHS)]]
    for digit, scan in zip(DIGITS, first_scans(path), strict=True):
        own = [each[scan, digit] for each in shown.values()]
        limit = float(max(np.abs(each).max() for each in own))
        rows.append(
            [f"{digit}", image(gray(scans.at(steps[0])[scan, 0]))]
            + [image(signed(each, limit)) for each in own]
        )
    return rows


def latent(path: Path) -> bytes:
    """Return the mean of each class map over the epochs, projected onto a plane, as a picture."""
    run = mothtrap.open_run(path)
    [labels] = run.tensors("label:*")
    return mothtrap.latent_space(run, "activation:maps", labels.identity).png()


def heads(path: Path) -> list[list[str]]:
    """Return a row for each head: its weights after epochs, and what the whole looks at."""
    run = mothtrap.open_run(path)
    weights, [scans] = run.tensor("activation:blocks.1.attention.1"), run.tensors("input:*")
    steps = sorted({key.step for key in weights.raw_keys()})
    place = first_scans(path)[3]
    scan = scans.at(steps[0])[place, 0]
    shown = [weights.at(steps[epoch - 1])[place] for epoch in EPOCHS]
    rows = [["", *(f"epoch {epoch}" for epoch in EPOCHS), "what it reads"]]
    for head in range(shown[0].shape[0]):
        patches = shown[-1][head, 0, 1:].reshape(4, 4).repeat(2, axis=0).repeat(2, axis=1)
        share = 0.8 * (patches / patches.max())[..., None]
        seen = gray(scan) * (1 - share) + np.array(ORANGE) * share
        tiles = [image(cividis(each[head] / each[head].max())) for each in shown]
        rows.append([f"head {head}", *tiles, image(seen.astype(np.uint8))])
    return rows


def gray(scan: Array) -> Array:
    """Return a scan as pixels, shape (height, width, 3)."""
    return np.repeat(np.rint(255 * scan)[..., None], 3, axis=2).astype(np.uint8)


def image(pixels: Array) -> str:
    """Return pixels as an element of HTML."""
    data = base64.b64encode(png(pixels)).decode()
    return f'<img alt="" src="data:image/png;base64,{data}">'


def document(rows: list[list[str]]) -> str:
    """Return a table as a document of HTML."""
    cells = "".join("<tr>" + "".join(f"<td>{each}</td>" for each in row) + "</tr>" for row in rows)
    return f"<!doctype html><style>{STYLE}</style><table>{cells}</table>"


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "pictures"))
