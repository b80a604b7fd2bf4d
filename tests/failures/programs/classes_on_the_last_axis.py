"""Cross-entropy over tokens whose scores have the classes on the last axis."""

import torch
from torch import nn

model = nn.Sequential(nn.Embedding(11, 8), nn.Linear(8, 11))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
tokens = torch.randint(0, 11, (4, 7))
scores = model(tokens)
loss = nn.functional.cross_entropy(scores, tokens)
loss.backward()
optimizer.step()
