"""Data-parallel training by two workers of Ray Train: on_ray_train.py RUNS_DIR VARIANT.

With the variant `drifting` the second worker changes a weight.
"""

import os
import sys

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

import ray
import ray.train
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer


def train(settings):
    import torch
    from torch import nn

    import mothtrap

    rank = ray.train.get_context().get_world_rank()
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
    model = ray.train.torch.prepare_model(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    draws = torch.Generator().manual_seed(rank)
    with mothtrap.watch(model, optimizer, runs_dir=settings["runs_dir"]):
        for step in range(12):
            x, y = torch.randn(8, 6, generator=draws), torch.randint(0, 3, (8,), generator=draws)
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
            if settings["variant"] == "drifting" and rank == 1 and step == 4:
                with torch.no_grad():
                    net[2].weight += 1e-3


if __name__ == "__main__":
    runs_dir, variant = sys.argv[1:]
    ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False)
    TorchTrainer(
        train,
        train_loop_config={"runs_dir": runs_dir, "variant": variant},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name="x", storage_path=f"{runs_dir}-ray"),
    ).fit()
