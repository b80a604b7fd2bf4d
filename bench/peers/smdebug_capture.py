"""Trains a model with smdebug's hook; run by `bench/capture.py` in smdebug's environment."""

import logging

logging.disable(logging.CRITICAL)

from bench.peers.base import Attached, main  # noqa: E402

REDUCTIONS = {"reductions": ["min", "max", "mean", "std"], "norms": ["l2"]}
PARAMETERS = ["weights", "biases", "gradients"]
CAN = {
    "idle": "its hook, with nothing to save for a thousand million steps",
    "default": "its hook as it is when nothing is set: losses, every 500 steps",
    "all gradients and weights": "min, max, mean, std and l2 at every step; it does not "
    "count values that are not finite",
    "everything": "the same, and of outputs of modules",
    "raw gradients and weights": "values at every step",
}
CANNOT = {"guard and ring": "does not judge a step before its update, and keeps no inputs"}


def attach(model, _, setting, folder):
    """Return no function to call at each step, because its hooks do all the work."""
    from smdebug.pytorch import Hook, ReductionConfig, SaveConfig

    folder = str(folder / "smdebug")  # must not exist
    every_step = {"out_dir": folder, "save_config": SaveConfig(save_interval=1)}
    reduced = ReductionConfig(**REDUCTIONS)
    if setting == "idle":
        hook = Hook(out_dir=folder, save_config=SaveConfig(save_interval=10**9))
    elif setting == "default":
        hook = Hook(out_dir=folder)
    elif setting == "raw gradients and weights":
        hook = Hook(include_collections=PARAMETERS, **every_step)
    elif setting == "all gradients and weights":
        hook = Hook(include_collections=PARAMETERS, reduction_config=reduced, **every_step)
    else:
        names = [*PARAMETERS, "outputs"]
        hook = Hook(include_collections=names, reduction_config=reduced, **every_step)
        hook.get_collection("outputs").include(".*_output_.*")
    hook.register_module(model)
    return Attached(close=hook.close)


if __name__ == "__main__":
    main(CAN, CANNOT, attach)
