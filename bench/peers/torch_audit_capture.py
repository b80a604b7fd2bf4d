"""Trains a model under torch-audit; run by `bench/capture.py` in its environment."""

from bench.peers.base import Attached, main

CAN = {
    "idle": "autopatch, an audit every thousand million steps",
    "default": "autopatch with default settings: an audit every 1,000 steps",
    "all gradients and weights": "its check of gradients and weights at each step; it stores "
    "findings, and no statistics",
    "everything": "all its checks at each step, so those of activations, too",
}
CANNOT = {
    "guard and ring": "looks at gradients after the update, and keeps no inputs",
    "raw gradients and weights": "stores no tensors",
}


def attach(model, optimizer, setting, _):
    """Patch the model and its optimizer."""
    from torch_audit import autopatch
    from torch_audit.validators.builtin.stability import StabilityValidator

    options = {
        "idle": {"every_n_steps": 10**9},
        "default": {},
        "all gradients and weights": {"every_n_steps": 1, "validators": [StabilityValidator()]},
        "everything": {"every_n_steps": 1},
    }[setting]
    auditor = autopatch(model, optimizer=optimizer, **options)

    def close():
        auditor.finish()
        auditor.unpatch()

    return Attached(close=close)


if __name__ == "__main__":
    main(CAN, CANNOT, attach)
