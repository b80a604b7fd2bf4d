"""A small convolutional network with batch normalization, Adam and a validation pass."""

import torch
from _common import digits, seeded
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

options = seeded(epochs=6)
x, y, x_test, y_test = digits(image=True)
train = DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True)
test = DataLoader(TensorDataset(x_test, y_test), batch_size=128)

model = nn.Sequential(
    nn.Conv2d(1, 16, 3, padding=1, bias=False),
    nn.BatchNorm2d(16),
    nn.ReLU(),
    nn.MaxPool2d(2),
    nn.Conv2d(16, 32, 3, padding=1, bias=False),
    nn.BatchNorm2d(32),
    nn.ReLU(),
    nn.AdaptiveAvgPool2d(1),
    nn.Flatten(),
    nn.Dropout(0.2),
    nn.Linear(32, 10),
)
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
criterion = nn.CrossEntropyLoss()

for epoch in range(options.epochs):
    model.train()
    for images, labels in train:
        optimizer.zero_grad()
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()
    model.eval()
    correct, total_loss = 0, 0.0
    with torch.no_grad():
        for images, labels in test:
            logits = model(images)
            total_loss += criterion(logits, labels).item() * len(labels)
            correct += (logits.argmax(1) == labels).sum().item()
    print(f"epoch {epoch}: val loss {total_loss / len(x_test):.3f} acc {correct / len(x_test):.3f}")
