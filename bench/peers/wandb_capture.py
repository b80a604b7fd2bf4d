"""Trains a model under `wandb.watch`, offline; run by `bench/capture.py` in its environment."""

import os

from bench.peers.base import Attached, main

CAN = {
    "idle": "wandb.watch with nothing due; no call of run.log",
    "default": "wandb.watch(model): gradients every 1,000 batches; the loss logged at each step",
    "all gradients and weights": 'log="all", log_freq=1: histograms of 64 bins, and no statistics',
}
CANNOT = {
    "guard and ring": "does not judge a step before its update, and keeps no inputs",
    "everything": "wandb.watch does not look at the outputs of modules",
    "raw gradients and weights": "wandb.watch keeps histograms alone",
}


def attach(model, _, setting, folder):
    """Watch the model; a commit at each step writes a row."""
    os.environ.update(WANDB_MODE="offline", WANDB_SILENT="true", WANDB_DIR=str(folder))
    import wandb

    run = wandb.init(project="bench", dir=str(folder))
    if setting == "idle":
        run.watch(model, log="all", log_freq=10**9)
        return Attached(close=run.finish)
    if setting == "default":
        run.watch(model)
    else:
        run.watch(model, log="all", log_freq=1)
    return Attached(after_step=lambda loss: run.log({"loss": loss.item()}), close=run.finish)


if __name__ == "__main__":
    main(CAN, CANNOT, attach)
