"""Trains a model under trainscope; run by `bench/capture.py` in its environment."""

import logging
import warnings

from bench.peers.base import Attached, main

CAN = {
    "idle": "its hooks and its call, a step recorded every thousand million steps",
    "default": "default settings: statistics of gradients and weights at each step, of "
    "activations every five, histograms every 50",
    "all gradients and weights": "its statistics of both at each step (norm, mean, std, min, max, "
    "share of non-finite values)",
    "everything": "the same, and of the outputs of all modules without parts",
}
CANNOT = {
    "guard and ring": "does not keep a step from being applied, and keeps no inputs",
    "raw gradients and weights": "keeps statistics alone",
}
NEVER = 10**9
OPTIONS = {
    "idle": {"trace_every_n_steps": NEVER, "activation_metrics_every_n_steps": NEVER},
    "default": {},
    "all gradients and weights": {
        "activation_metrics_every_n_steps": NEVER,
        "histogram_every_n_steps": NEVER,
    },
    "everything": {"activation_metrics_every_n_steps": 1, "histogram_every_n_steps": NEVER},
}


def attach(model, optimizer, setting, folder):
    """Call it before each update, as it recommends."""
    from trainscope import TrainScope, TrainScopeConfig

    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    config = TrainScopeConfig(run_dir=str(folder), run_name="bench", **OPTIONS[setting])
    scope = TrainScope(model, optimizer, config=config).attach()
    return Attached(before_update=lambda loss: scope.step(loss.item()), close=scope.detach)


if __name__ == "__main__":
    main(CAN, CANNOT, attach)
