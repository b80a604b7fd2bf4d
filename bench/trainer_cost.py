"""User time that watching adds to a step of Lightning, of Hugging Face's Trainer, and of a loop.

System time is not counted. It is mostly page faults in new memory (2 ms in a step of the loop),
and it depends on what the process allocated before, so watching can lower it.

Each way trains the same network in separate processes, in turns; a ratio compares two processes of
one round. The first steps are not counted, because mothtrap observes them in full.

Run: .venv-trainers/bin/python bench/trainer_cost.py [--steps 300] [--width 512] [--rounds 5]
"""

from __future__ import annotations

import argparse
import logging
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

WARM_UP = 100
"""Steps that are not counted."""
ROWS = 64
"""Of a batch."""


class Clock:
    """User time at the end of each step."""

    def __init__(self) -> None:
        self.ends_s: list[float] = []

    def step(self) -> None:
        """Record the end of a step."""
        self.ends_s.append(resource.getrusage(resource.RUSAGE_SELF).ru_utime)

    def mean_ms(self) -> float:
        """Return the mean of all steps except the first."""
        counted = self.ends_s[WARM_UP:]
        return 1e3 * (counted[-1] - counted[0]) / (len(counted) - 1)


def network(width: int) -> Any:
    """Return four layers."""
    from torch import nn

    sizes = [(width, width)] * 3
    hidden = [layer for size in sizes for layer in (nn.Linear(*size), nn.ReLU())]
    return nn.Sequential(*hidden, nn.Linear(width, 10))


def rows(steps: int, width: int) -> tuple[Any, Any]:
    """Return inputs and classes for so many steps."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    return torch.randn(steps * ROWS, width), torch.randint(0, 10, (steps * ROWS,))


def by_loop(steps: int, width: int) -> float:
    """Train with a loop of PyTorch; return the mean user time of a step, in milliseconds."""
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    net, clock = network(width), Clock()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4)
    for x, y in DataLoader(TensorDataset(*rows(steps, width)), ROWS):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
        clock.step()
    return clock.mean_ms()


def by_lightning(steps: int, width: int) -> float:
    """Train with Lightning; return the mean user time of a step, in milliseconds."""
    import torch
    from lightning import pytorch as pl
    from torch.utils.data import DataLoader, TensorDataset

    class Net(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = network(width)

        def training_step(self, batch: Any, _: int) -> Any:
            x, y = batch
            loss = torch.nn.functional.cross_entropy(self.net(x), y)
            self.log("train_loss", loss)
            return loss

        def configure_optimizers(self) -> Any:
            return torch.optim.AdamW(self.parameters(), lr=1e-4)

    clock = Clock()

    class Ticks(pl.Callback):
        def on_train_batch_end(self, *_: Any) -> None:
            clock.step()

    warnings.simplefilter("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    off = ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary")
    quiet: dict[str, Any] = dict.fromkeys(off, False)
    trainer = pl.Trainer(accelerator="cpu", max_epochs=1, callbacks=[Ticks()], **quiet)
    trainer.fit(Net(), DataLoader(TensorDataset(*rows(steps, width)), ROWS))
    return clock.mean_ms()


def by_transformers(steps: int, width: int) -> float:
    """Train with the Hugging Face Trainer; return the mean user time of a step, in milliseconds."""
    import torch
    import transformers

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = network(width)

        def forward(self, x: Any, labels: Any = None) -> dict[str, Any]:
            logits = self.net(x)
            return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}

    clock = Clock()

    class Ticks(transformers.TrainerCallback):
        def on_step_end(self, *_: Any, **__: Any) -> None:
            clock.step()

    transformers.logging.set_verbosity_error()
    x, y = rows(steps, width)
    data = [{"x": a, "labels": b} for a, b in zip(x, y, strict=True)]
    with tempfile.TemporaryDirectory() as folder:
        settings = transformers.TrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=ROWS,
            num_train_epochs=1,
            learning_rate=1e-4,
            report_to=[],
            use_cpu=True,
            save_strategy="no",
            disable_tqdm=True,
            logging_strategy="no",
        )
        transformers.Trainer(Net(), settings, train_dataset=data, callbacks=[Ticks()]).train()
    return clock.mean_ms()


TRAINERS = {"loop": by_loop, "lightning": by_lightning, "transformers": by_transformers}


def measure(trainer: str, options: argparse.Namespace, *, watched: bool) -> float:
    """Train in a separate process; return its measurement."""
    own = [__file__, "--as", trainer, "--steps", str(options.steps), "--width", str(options.width)]
    with tempfile.TemporaryDirectory() as folder:
        prefix = ["-m", "mothtrap", "run", "--quiet", "--runs-dir", folder] if watched else []
        words = [sys.executable, *prefix, *own]
        done = subprocess.run(words, env=os.environ, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def main() -> None:
    """Print the user time of a step, and the medians of the ratio and of the difference."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--as", dest="trainer", choices=TRAINERS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.trainer:
        print(TRAINERS[options.trainer](options.steps, options.width))
        return
    print(f"{Path(sys.executable)}: {options.rounds} rounds of {options.steps} steps")
    for trainer in TRAINERS:
        pairs = [
            (measure(trainer, options, watched=False), measure(trainer, options, watched=True))
            for _ in range(options.rounds)
        ]
        plain_ms = statistics.median(plain for plain, _ in pairs)
        ratios = sorted(watched / plain for plain, watched in pairs)
        median = statistics.median(ratios)
        shown = ", ".join(f"{ratio:.3f}" for ratio in ratios)
        added_ms = statistics.median(watched - plain for plain, watched in pairs)
        times = f"{plain_ms:8.3f} ms of user time per step, {added_ms:+.3f} ms"
        print(f"{trainer:13} {times}  x{median:.3f} ({shown})")


if __name__ == "__main__":
    main()
