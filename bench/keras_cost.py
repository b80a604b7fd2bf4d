"""Processor time of a Keras step under `mothtrap run`, relative to a plain step.

Two processes train the same network with `fit`: one plain, one watched. They take turns of a
few steps, so that a machine that slows down slows both; all that a process spends counts, with
its threads, from the end of its turn before. The ratio is taken of each pair of turns. Of
several pairs of processes the median of all ratios is printed, with the medians of each.

Run: .venv-tensorflow/bin/python bench/keras_cost.py [--model mlp,cnn] [--rounds 4]
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from multiprocessing.connection import Client, Listener
from pathlib import Path
from typing import Any

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.capturing.figures import interval
from mothtrap.statistics import built

KEY = b"bench"


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Extent of a measurement: steps before the first turn, steps of a turn, pairs of turns."""

    warm_up: int
    steps: int
    pairs: int


SHAPES = {
    "mlp": Shape(warm_up=2400, steps=200, pairs=12),
    "cnn": Shape(warm_up=300, steps=20, pairs=12),
    "cnn_late": Shape(warm_up=1000, steps=20, pairs=12),
}
"""The first steps are inspected, and the targets of the first 256 steps are all read, which is not
typical. `cnn_late` is the same network once the credit of the first steps is used up."""


def build(name: str) -> tuple[Any, Any]:
    """Return a compiled model and its data, in batches."""
    import keras
    import numpy as np
    import tensorflow as tf

    keras.utils.set_random_seed(0)
    rng = np.random.default_rng(0)
    layers = keras.layers
    if name == "mlp":
        model = keras.Sequential(
            [keras.Input((64,)), *(layers.Dense(64, "relu") for _ in range(2)), layers.Dense(10)]
        )
        x = rng.normal(size=(4096, 64)).astype(np.float32)
    else:
        model = keras.Sequential([keras.Input((32, 32, 3))])
        for width in (32, 64, 128):
            model.add(layers.Conv2D(width, 3, padding="same", use_bias=False))
            model.add(layers.BatchNormalization())
            model.add(layers.ReLU())
            model.add(layers.MaxPooling2D())
        model.add(layers.GlobalAveragePooling2D())
        model.add(layers.Dense(10))
        x = rng.normal(size=(2048, 32, 32, 3)).astype(np.float32)
    y = (x.reshape(len(x), -1)[:, :40] @ rng.normal(size=(40, 10))).argmax(1)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, metrics=["accuracy"], jit_compile=False)
    batches = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(len(x), seed=0).batch(32)
    return model, batches.repeat()


def train(name: str, address: str) -> None:
    """Train in turns: after each turn, report the processor time of this process, and wait."""
    import keras
    import tensorflow as tf

    for threads in (
        tf.config.threading.set_intra_op_parallelism_threads,
        tf.config.threading.set_inter_op_parallelism_threads,
    ):
        threads(1)
    model, batches = build(name)
    shape, steps = SHAPES[name], 0

    class Turns(keras.callbacks.Callback):
        def on_train_batch_end(self, *_: object, **__: object) -> None:
            nonlocal steps
            steps += 1
            if steps >= shape.warm_up and (steps - shape.warm_up) % shape.steps == 0:
                parent.send(time.process_time())
                parent.recv()

    with Client(address, authkey=KEY) as parent:
        total = shape.warm_up + shape.pairs * shape.steps
        model.fit(batches, steps_per_epoch=total, epochs=1, verbose=0, callbacks=[Turns()])


def measure(name: str, folder: str) -> tuple[list[float], list[float]]:
    """Return processor seconds of a step, plain and watched, turn by turn."""
    shape = SHAPES[name]
    address = f"{folder}/turns"
    own = [__file__, "--train", name, "--address", address]
    watched = ["-m", "mothtrap", "run", "--quiet", "--runs-dir", folder]
    env = {**os.environ, "KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "2"}
    spent: list[list[float]] = [[], []]
    children: list[subprocess.Popen[bytes]] = []
    links: list[Any] = []
    last: list[float] = []

    def turn(side: int) -> float:
        try:
            return float(links[side].recv())
        except EOFError:
            children[side].wait()
            raise SystemExit(Path(f"{folder}/log{side}").read_text()) from None

    with Listener(address, authkey=KEY) as listener:
        for how in ([], watched):  # one after the other, so that their warming up is apart
            words = [sys.executable, *how, *own]
            with Path(f"{folder}/log{len(children)}").open("w") as log:
                children.append(subprocess.Popen(words, env=env, stdout=log, stderr=log))
            links.append(listener.accept())
            last.append(turn(len(last)))
        for pair in range(shape.pairs):
            for side in (0, 1) if pair % 2 else (1, 0):
                links[side].send(None)
                now = turn(side)
                spent[side].append((now - last[side]) / shape.steps)
                last[side] = now
        for link, child in zip(links, children, strict=True):
            link.send(None)
            child.wait(timeout=120)
    return spent[0], spent[1]


def report(name: str, rounds: int) -> None:
    """Measure a model in several pairs of processes and print the results."""
    ratios: list[float] = []
    medians, plain_s, watched_s = [], [], []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            plain, watched = measure(name, folder)
        here = [w / p for p, w in zip(plain, watched, strict=True)]
        ratios += here
        medians.append(statistics.median(here))
        plain_s += plain
        watched_s += watched
    low, high = interval(
        lambda chosen: statistics.median(ratios[i] for i in chosen), [SHAPES[name].pairs] * rounds
    )
    print(
        f"{name}: x{statistics.median(ratios):.3f} [{low:.3f}, {high:.3f}]  "
        f"{1e3 * statistics.median(plain_s):.2f} -> {1e3 * statistics.median(watched_s):.2f} ms; "
        f"processes: {' '.join(f'{m:.3f}' for m in medians)}",
        flush=True,
    )


def main() -> None:
    """Measure the models that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="mlp,cnn")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--train", choices=SHAPES, help=argparse.SUPPRESS)
    parser.add_argument("--address", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.train:
        train(options.train, options.address)
        return
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    parts = "with" if built.arrays is not None else "WITHOUT"
    about = f"Python {platform.python_version()}, {os.cpu_count()} CPUs, load {load}"
    print(f"{about}, mothtrap {parts} its compiled part")
    for name in options.model.split(","):
        report(name, options.rounds)


if __name__ == "__main__":
    main()
