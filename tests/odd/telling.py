"""Prints the results of a training: equal lines mean bit-equal training."""

import hashlib
import random

import numpy as np
import torch


def begin():
    """Seed every generator and use one thread."""
    torch.set_num_threads(1)
    random.seed(7)
    np.random.seed(7)
    torch.manual_seed(7)


def tell(*things, **numbers):
    """Print one line: a digest of modules, optimizers and tensors, the generators, numbers."""
    found = hashlib.sha256()
    with torch._C.DisableTorchFunction():
        for thing in things:
            _add(found, thing)
    states = torch.get_rng_state().tolist(), random.getstate(), np.random.get_state()
    rng = hashlib.sha256(repr(states).encode()).hexdigest()[:12]
    named = " ".join(f"{name}={value}" for name, value in numbers.items())
    print(found.hexdigest()[:16], "rng", rng, named, flush=True)


def _add(found, thing):
    if isinstance(thing, torch.Tensor):
        values = thing.detach()
        if values.is_quantized:
            values = values.int_repr()
        found.update(f"{values.dtype}{tuple(values.shape)}".encode())
        found.update(repr(values.to_dense().tolist()).encode())
    elif isinstance(thing, torch.nn.Module):
        _add(found, thing.state_dict())
        for name, parameter in thing.named_parameters():
            found.update(f"{name}{parameter.requires_grad}".encode())
            _add(found, parameter.grad)
    elif isinstance(thing, torch.optim.Optimizer):
        _add(found, thing.state_dict())
    elif isinstance(thing, dict):
        for name, value in thing.items():
            found.update(str(name).encode())
            _add(found, value)
    elif isinstance(thing, list | tuple):
        for value in thing:
            _add(found, value)
    else:
        found.update(repr(thing).encode())
