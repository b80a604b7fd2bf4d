"""Create docs/gallery.md: ten faults, with the verdict and a picture of the page for each.

    python scripts/gallery.py [NAME ...]

The programs are those of bench/faultbench, run once with their fault and once without. Requires
what the browser tests require, and Pillow.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import page

ROOT = Path(__file__).parents[1]
CASES = ROOT / "bench" / "faultbench"
PICTURES = ROOT / "docs" / "pictures" / "gallery"
SIZE = {"width": 1000, "height": 690}


class Shown(NamedTuple):
    """A program, the title of its section, and its fix."""

    path: str
    title: str
    fix: str


GALLERY = (
    Shown(
        "cases/softmax_before_ce.py",
        "Softmax before a loss that applies softmax",
        "Remove the softmax: `CrossEntropyLoss` takes logits.",
    ),
    Shown(
        "cases/mse_broadcast.py",
        "A loss on shapes (N, 1) and (N,)",
        "Give both the same shape: `pred.squeeze(1)`.",
    ),
    Shown(
        "cases/missing_zero_grad.py",
        "Gradients that are never cleared",
        "Call `opt.zero_grad()` in each step.",
    ),
    Shown(
        "cases/log_of_zero_late.py",
        "The logarithm of 0, late in training",
        "Compute the loss from logits, so that the probability is never rounded to 0 before the "
        "logarithm.",
    ),
    Shown(
        "cases/zero_init.py",
        "Weights that are initialized with 0",
        "Use the default initialization of PyTorch.",
    ),
    Shown(
        "cases/lr_diverges.py",
        "A learning rate that is too high",
        "Use a learning rate of 0.01.",
    ),
    Shown(
        "cases/encoder_without_grad.py",
        "An encoder under `no_grad`",
        "Use `torch.no_grad()` only for evaluation.",
    ),
    Shown(
        "cases/sorted_not_shuffled.py",
        "Data sorted by class",
        "Set `shuffle=True` in the loader.",
    ),
    Shown(
        "cases/dying_relu.py",
        "Units that are dead from the start",
        "Initialize the biases with 0, not with -10.",
    ),
    Shown(
        "more/validation_with_dropout.py",
        "Validation in training mode",
        "Call `model.eval()` before a validation, and `model.train()` after it.",
    ),
)
HEAD = """# Gallery: ten faults

Each section shows a small program with one fault, the verdict of `mothtrap run`, and a picture of
the page. `python scripts/gallery.py` creates this page from real runs of the programs in
`bench/faultbench`. With `--healthy`, a program runs its `healthy` branch, which has no fault. The
time that mothtrap added is long, because the machine was busy.
"""


def main(names: list[str]) -> int:
    """Run the programs, take the pictures, and write the page."""
    chosen = [each for each in GALLERY if not names or Path(each.path).stem in names]
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        for part in ("cases", "more"):
            shutil.copytree(CASES / part, work / part)
        with ThreadPoolExecutor(2) as pool:
            faulty = list(pool.map(lambda each: verdict(work, each), chosen))
            repaired = list(pool.map(lambda each: verdict(work, each, "--healthy"), chosen))
        with page.served(work) as url, page.browser() as browser:
            for each in chosen:
                take(browser, url, Path(each.path).stem)
    sections = [
        section(each, said, healthy)
        for each, said, healthy in zip(chosen, faulty, repaired, strict=True)
    ]
    text = "\n".join([HEAD, *sections])
    if names:
        print(text)
    else:
        (ROOT / "docs" / "gallery.md").write_text(text, encoding="utf-8")
    return 0


def verdict(work: Path, shown: Shown, *options: str) -> str:
    """Run a program and return the verdict that mothtrap printed."""
    stem = Path(shown.path).stem
    name = stem + ("-repaired" if options else "")
    command = [*page.MOTHTRAP, "run", "--name", name, shown.path, *options]
    environ = os.environ | {"COLUMNS": "100", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=work, env=environ, capture_output=True, text=True)
    blocks = re.split(r"\n(?=mothtrap: )", "\n" + done.stderr)
    return blocks[-1].strip()


def take(browser: Any, url: str, run: str) -> None:
    """Take a picture of the overview of a run."""
    view = browser.new_page(viewport=SIZE)
    view.goto(f"{url}#/overview?run={run}")
    page.wait_until_read(view)
    page.shot(view, PICTURES / f"{run}.png")
    view.close()


def section(shown: Shown, said: str, healthy: str) -> str:
    """Return the section of a program."""
    stem = Path(shown.path).stem
    return f"""## {shown.title}

```python
{excerpt(CASES / shown.path)}
```

```text
$ mothtrap run {Path(shown.path).name}
{said}
```

![Overview of the run of {Path(shown.path).name}](pictures/gallery/{stem}.png)

**Fix.** {shown.fix} With `--healthy`: {healthy.removeprefix("mothtrap: ").partition(" (")[0]}.
"""


def excerpt(path: Path) -> str:
    """Return the program without its scaffolding."""
    lines = path.read_text(encoding="utf-8").rstrip().splitlines()
    ends = (n for n, line in enumerate(lines) if line.startswith("if __name__"))
    end = next(ends, len(lines))
    kept = [line for line in lines[:end] if not re.match(r"(import|from) |\s+run = Run", line)]
    return "\n".join(kept).strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
