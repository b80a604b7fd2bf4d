"""Two gloo ranks that train with a trainer, with and without mothtrap; forked after its import."""

from __future__ import annotations

import multiprocessing
import os
import socket
import traceback
from typing import Any

TRAINERS = {
    "lightning": "tests.adapters.lightning.modules",
    "transformers": "tests.adapters.transformers.training",
    "accelerate": "tests.adapters.accelerate.loops",
}
"""The training module of each trainer."""
RANKS = 2
TIMEOUT_S = 240


def compared(trainer: str, kinds: list[str]) -> list[dict[str, tuple[bool, int]]]:
    """Return, by kind, whether both ranks got identical weights, and the recorded steps."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, *TRAINERS.values()])
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    results = context.Queue()
    ranks = [
        context.Process(target=_rank, args=(rank, port, trainer, kinds, results))
        for rank in range(RANKS)
    ]
    for each in ranks:
        each.start()
    try:
        found = dict(results.get(timeout=TIMEOUT_S) for _ in ranks)
    finally:
        for each in ranks:
            each.join(5)
            each.kill()
    return [found[rank] for rank in range(RANKS)]


def _rank(rank: int, port: int, trainer: str, kinds: list[str], results: Any) -> None:
    try:
        found: Any = _as_rank(rank, port, trainer, kinds)
    except BaseException:
        found = traceback.format_exc()
    results.put((rank, found))
    results.close()
    results.join_thread()
    os._exit(0)  # gloo may abort a process whose peer has left


def _as_rank(rank: int, port: int, trainer: str, kinds: list[str]) -> dict[str, tuple[bool, int]]:
    os.environ |= {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(RANKS),
        "LOCAL_WORLD_SIZE": str(RANKS),
        "GROUP_RANK": "0",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "TORCHELASTIC_RUN_ID": "none",
    }
    import importlib

    import torch

    from mothtrap.session.adapters import load
    from mothtrap.testing.adapters import Process

    torch.set_num_threads(1)
    module: Any = importlib.import_module(TRAINERS[trainer])
    torch.distributed.init_process_group("gloo", rank=rank, world_size=RANKS)
    found = {}
    for kind in kinds:
        plain = module.trained(kind, ranks=RANKS)
        process = Process("torch")
        with process.watched(load(trainer)):
            same = module.trained(kind, ranks=RANKS) == plain
        found[kind] = same, len(process.steps())
    torch.distributed.barrier()
    return found
