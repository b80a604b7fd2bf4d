"""A large peak learning rate that is reached by a warm-up: OneCycle with SGD."""

import torch
from _common import digits, seeded
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

options = seeded(epochs=10)
x, y, x_test, y_test = digits()
loader = DataLoader(TensorDataset(x, y), batch_size=128, shuffle=True)
model = nn.Sequential(
    nn.Linear(64, 128),
    nn.BatchNorm1d(128),
    nn.ReLU(),
    nn.Linear(128, 128),
    nn.ReLU(),
    nn.Linear(128, 10),
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, nesterov=True)
scheduler = torch.optim.lr_scheduler.OneCycleLR(
    optimizer, max_lr=0.4, epochs=options.epochs, steps_per_epoch=len(loader)
)
criterion = nn.CrossEntropyLoss()
for epoch in range(options.epochs):
    model.train()
    for rows, labels in loader:
        loss = criterion(model(rows), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
    model.eval()
    with torch.no_grad():
        accuracy = (model(x_test).argmax(1) == y_test).float().mean().item()
    print(f"epoch {epoch}: lr {scheduler.get_last_lr()[0]:.4f} accuracy {accuracy:.3f}")
