"""A tokenizer that has one token more than the model."""

import torch
from torch import nn
from torch.utils.data import DataLoader

sentences = [torch.randint(0, 50, (6,)) for _ in range(20)]
sentences[13][4] = 50
model = nn.Sequential()
model.add_module("embed", nn.Embedding(50, 8))
model.add_module("out", nn.Linear(8, 50))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(sentences, batch_size=4)
for tokens in loader:
    scores = model(tokens)
    loss = scores.square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
