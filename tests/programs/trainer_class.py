"""A class that owns model, optimizer and schedule, with an evaluation per epoch."""

import torch
from dataset import blobs, loader
from digesting import begin
from torch import nn


class Trainer:
    def __init__(self, model, digest):
        self.model, self.digest = model, digest
        self.criterion = nn.CrossEntropyLoss()
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, T_max=6)

    def training_step(self, x, y):
        loss = self.criterion(self.model(x), y)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return loss.detach()

    @torch.inference_mode()
    def evaluate(self, x, y):
        self.model.eval()
        loss = self.criterion(self.model(x), y)
        self.model.train()
        return loss

    def fit(self, train, validation, epochs):
        for epoch in range(epochs):
            for x, y in train:
                self.digest.batch(x, y)
                self.digest.loss(self.training_step(x, y))
            self.schedule.step()
            print(f"epoch {epoch}: validation {self.evaluate(*validation).item():.4f}")


digest = begin()
x, y = blobs(rows=320)
model = nn.Sequential(nn.Linear(8, 32), nn.BatchNorm1d(32), nn.GELU(), nn.Linear(32, 3))
Trainer(model, digest).fit(loader(x[:256], y[:256]), (x[256:], y[256:]), epochs=3)
digest.report(model)
