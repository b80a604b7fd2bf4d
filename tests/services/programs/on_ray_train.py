"""Data-parallel training by two workers of Ray Train: on_ray_train.py RUNS_DIR VARIANT [HOW].

Variants: `drifting`, the second worker changes a weight; `failing`, it raises an exception at
its sixth step; `restarting`, it raises one at its first start only. HOW is `watch` (default) or
`callback`.
"""

import os
import sys
from pathlib import Path

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

import ray
import ray.train
from ray.train import FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

import mothtrap


def train(settings):
    import torch
    from torch import nn

    rank = ray.train.get_context().get_world_rank()
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
    model = ray.train.torch.prepare_model(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if settings["how"] == "watch":
        with mothtrap.watch(model, optimizer, runs_dir=settings["runs_dir"]):
            steps(settings, rank, net, model, optimizer)
    else:
        steps(settings, rank, net, model, optimizer)


def steps(settings, rank, net, model, optimizer):
    import torch
    from torch import nn

    draws = torch.Generator().manual_seed(rank)
    started = Path(settings["runs_dir"] + "-started")
    for step in range(12):
        x, y = torch.randn(8, 6, generator=draws), torch.randint(0, 3, (8,), generator=draws)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        if rank == 1 and step == 4:
            if settings["variant"] == "drifting":
                with torch.no_grad():
                    net[2].weight += 1e-3
            first = not started.exists()
            started.touch()
            if settings["variant"] == "failing" or (settings["variant"] == "restarting" and first):
                raise ValueError("a bad row")


if __name__ == "__main__":
    runs_dir, variant, *how = sys.argv[1:]
    ray.init(num_cpus=3, include_dashboard=False, log_to_driver=bool(how))
    callbacks = [mothtrap.RayCallback("joined", runs_dir=runs_dir)] if how == ["callback"] else []
    TorchTrainer(
        train,
        train_loop_config={
            "runs_dir": runs_dir,
            "variant": variant,
            "how": how[0] if how else "watch",
        },
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(
            name="x",
            storage_path=f"{runs_dir}-ray",
            callbacks=callbacks,
            failure_config=FailureConfig(max_failures=1 if variant == "restarting" else 0),
        ),
    ).fit()
