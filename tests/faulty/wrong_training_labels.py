"""A quarter of the training labels is random; in the healthy program all are right."""

import torch
from data import arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

options = arguments()
centers = 1.2 * torch.randn(5, 20)
labels = torch.randint(0, 5, (1500,))
inputs = centers[labels] + torch.randn(1500, 20)
train_labels = labels[:1000].clone()
if not options.healthy:
    wrong = torch.rand(1000) < 0.25
    train_labels[wrong] = torch.randint(0, 5, (int(wrong.sum()),))

loader = DataLoader(TensorDataset(inputs[:1000], train_labels), batch_size=25, shuffle=True)
model = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 5))
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
criterion = nn.CrossEntropyLoss()
for epoch in range(6):
    model.train()
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)  # <- here
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        validation = criterion(model(inputs[1000:]), labels[1000:])
    print(epoch, loss.item(), validation.item())
