"""Trains a model with smdebug's hook; run by `bench/capture.py` in smdebug's environment.

Two trainings of the same model take turns, one of them hooked. Prints one line of JSON.
Run: python smdebug_capture.py MODEL SETTING PAIRS
"""

import importlib
import json
import logging
import os
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
logging.disable(logging.CRITICAL)

import torch  # noqa: E402
from bench.memory import Growth  # noqa: E402

REDUCTIONS = {"reductions": ["min", "max", "mean", "std"], "norms": ["l2"]}


def hook_of(setting, folder):
    """Return a hook that captures at every step."""
    from smdebug.pytorch import Hook, ReductionConfig, SaveConfig

    options = {"out_dir": folder, "save_config": SaveConfig(save_interval=1)}
    if setting == "raw gradients and weights":
        return Hook(include_collections=["weights", "biases", "gradients"], **options)
    reduced = ReductionConfig(**REDUCTIONS)
    hook = Hook(include_collections=["outputs"], reduction_config=reduced, **options)
    hook.get_collection("outputs").include(".*_output_.*")
    return hook


def main():
    """Measure one setting."""
    model_name, setting, pairs = sys.argv[1], sys.argv[2], int(sys.argv[3])
    torch.set_num_threads(2)
    models = importlib.import_module(f"bench.models.{model_name}")
    _, _, plain = models.training()
    model, _, hooked = models.training()
    for _ in range(5):
        plain()
        hooked()
    folder = os.path.join(tempfile.mkdtemp(), "run")
    growth = Growth()
    hook_of(setting, folder).register_module(model)
    plain_s, watched_s = [], []
    for pair in range(pairs + 2):
        for side in ("plain", "hooked") if pair % 2 else ("hooked", "plain"):
            began = time.perf_counter()
            (plain if side == "plain" else hooked)()
            (plain_s if side == "plain" else watched_s).append(time.perf_counter() - began)
    found = {"plain_s": plain_s[2:], "watched_s": watched_s[2:], "grown_mb": growth.peak_mb()}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
