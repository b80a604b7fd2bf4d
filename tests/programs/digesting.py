"""Prints the results of a training as digests: equal digests mean bit-equal training."""

import hashlib
import json
import random
import sys

import numpy as np
import torch


def begin(*, seed=None):
    """Use one thread, seed every generator (first argument, default 0), return a Digest."""
    if seed is None:
        seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    torch.set_num_threads(1)
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    return Digest()


class Digest:
    """Collects what must not change: losses, batches, generator states, weights."""

    def __init__(self):
        self.parts = {name: hashlib.sha256() for name in ("weights", "losses", "rng", "batches")}

    def batch(self, *tensors):
        """Add the bytes of a batch."""
        for tensor in tensors:
            self.parts["batches"].update(_bytes(tensor))

    def loss(self, value):
        """Add the bits of a loss, and the state of every generator at this moment."""
        self.parts["losses"].update(_bytes(torch.as_tensor(value)))
        self._generators()

    def result(self, *modules):
        """Return the digests; `modules` are the trained ones."""
        for module in modules:
            for name, tensor in module.state_dict().items():
                self.parts["weights"].update(name.encode() + _bytes(tensor))
            for parameter in module.parameters():
                if parameter.grad is not None:
                    self.parts["weights"].update(_bytes(parameter.grad))
        self._generators()
        return {name: part.hexdigest()[:16] for name, part in self.parts.items()}

    def report(self, *modules):
        """Print the digests as one line of JSON."""
        print(json.dumps({"digest": self.result(*modules)}), flush=True)

    def _generators(self):
        rng = self.parts["rng"]
        rng.update(torch.get_rng_state().numpy().tobytes())
        rng.update(np.random.get_state()[1].tobytes())
        rng.update(repr(random.getstate()).encode())


def _bytes(tensor):
    tensor = tensor.detach().cpu().contiguous()
    header = f"{tensor.dtype}{tuple(tensor.shape)}".encode()
    return header + tensor.reshape(-1).view(torch.uint8).numpy().tobytes()
