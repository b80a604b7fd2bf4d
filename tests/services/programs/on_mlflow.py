"""Logs a training to a tracking server; prints the sum of the weights and the stored history.

Usage: on_mlflow.py URI
"""

import json
import sys

import mlflow
import torch
from torch import nn

mlflow.set_tracking_uri(sys.argv[1])
torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
with mlflow.start_run() as run:
    for step in range(20):
        loss = model(torch.randn(8, 4)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mlflow.log_metrics({"mine/loss": loss.item()}, step=step)
        mlflow.log_metric("mine/later", 2.0 * step, step=step, synchronous=False)
mlflow.flush_async_logging()
client = mlflow.MlflowClient()
history = {
    name: [(m.step, m.value) for m in client.get_metric_history(run.info.run_id, name)]
    for name in ("mine/loss", "mine/later")
}
weights = sum(p.double().sum().item() for p in model.parameters())
print(json.dumps({"weights": weights, "history": history}))
