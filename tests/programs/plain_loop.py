"""The loop of every tutorial: loader, dropout, momentum."""

from dataset import blobs, loader
from digesting import begin
from torch import nn, optim

digest = begin()
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 3))
optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
criterion = nn.CrossEntropyLoss()
for epoch in range(4):
    for x, y in loader(*blobs()):
        digest.batch(x, y)
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        digest.loss(loss)
    print(f"epoch {epoch}: loss {loss.item():.4f}")
digest.report(model)
