"""A linear probe on random convolutional features that are computed under no_grad."""

import torch
from _common import digits, seeded
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

options = seeded(epochs=10)
x, y, x_test, y_test = digits(image=True)
features = nn.Sequential(
    nn.Conv2d(1, 32, 3), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), nn.LayerNorm(288)
).eval()
probe = nn.Linear(288, 10)
optimizer = torch.optim.SGD(probe.parameters(), lr=0.05, momentum=0.9)
loader = DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True)
for epoch in range(options.epochs):
    for images, labels in loader:
        with torch.no_grad():
            inputs = features(images)
        loss = nn.functional.cross_entropy(probe(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: {loss.item():.3f}")
with torch.no_grad():
    accuracy = (probe(features(x_test)).argmax(1) == y_test).float().mean().item()
print("test accuracy", accuracy)
