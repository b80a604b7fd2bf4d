import torch
import torch.nn.functional as F
from _start import start, words
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

start()
source = words()[:, :-1]
target = torch.cat([torch.zeros(len(source), 1, dtype=torch.long), source.flip(1)], dim=1)
embed, place, head = nn.Embedding(20, 32), nn.Embedding(17, 32), nn.Linear(32, 20)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.place, self.head = embed, place, head
        self.body = nn.Transformer(32, 4, 1, 1, 64, dropout=0.0, batch_first=True)

    def forward(self, source, shown):
        ours = self.embed(source) + self.place(torch.arange(source.shape[1]))
        theirs = self.embed(shown) + self.place(torch.arange(shown.shape[1]))
        mask = nn.Transformer.generate_square_subsequent_mask(shown.shape[1])
        return self.head(self.body(ours, theirs, tgt_mask=mask, tgt_is_causal=True))


model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for _epoch in range(10):
    for ours, theirs in DataLoader(TensorDataset(source, target), 32, shuffle=True):
        optimizer.zero_grad()
        scores = model(ours, theirs[:, :-1])
        loss = F.cross_entropy(scores.flatten(0, 1), theirs[:, 1:].flatten())
        loss.backward()
        optimizer.step()
