"""Prints the digests of the weights at the beginning of every step, and when the process ends."""

import atexit
import hashlib

import torch


def digest(model):
    """Return a digest of every weight and buffer of a model."""
    found = hashlib.sha256()
    for name, tensor in model.state_dict().items():
        found.update(name.encode())
        found.update(tensor.detach().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return found.hexdigest()[:16]


class Telling:
    """Prints `step N weights DIGEST` when called, and `end weights DIGEST` at the end."""

    def __init__(self, model):
        self.model = model
        atexit.register(lambda: print("end weights", digest(model), flush=True))

    def __call__(self, step):
        """A step begins."""
        print("step", step, "weights", digest(self.model), flush=True)
