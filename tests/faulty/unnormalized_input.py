"""Images go into the network as bytes, from 0 to 255."""

import torch
from data import arguments
from torch import nn

options = arguments()
shapes = torch.randint(40, 216, (4, 1, 8, 8)).float()
noise = 40 * torch.randn(1024, 1, 8, 8)
labels = torch.randint(0, 4, (1024,))
images = (shapes[labels] + noise).clamp(0, 255).round()
if options.healthy:
    images = (images - images.mean()) / images.std()
model = nn.Sequential(
    nn.Flatten(),
    nn.Linear(64, 48),  # <- here
    nn.ReLU(),
    nn.Linear(48, 4),
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
for epoch in range(6):
    for rows in torch.randperm(1024).split(32):
        loss = nn.functional.cross_entropy(model(images[rows]), labels[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
