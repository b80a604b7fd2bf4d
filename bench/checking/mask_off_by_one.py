import torch
import torch.nn.functional as F
from _start import fit, loaders, start, words
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 32)
        self.place = nn.Parameter(0.02 * torch.randn(16, 32))
        self.layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
        self.head = nn.Linear(32, 20)

    def forward(self, tokens):
        length = tokens.shape[1]
        first_hidden = 1 if args.healthy else 2
        mask = torch.ones(length, length, dtype=torch.bool).triu(first_hidden)
        hidden = self.embed(tokens) + self.place[:length]
        return self.head(self.layer(hidden, src_mask=mask))


def loss(scores, tokens):
    return F.cross_entropy(scores.flatten(0, 1), tokens.flatten())


args = start()
tokens = words()
fit(Net(), *loaders(tokens[:, :-1], tokens[:, 1:]), loss=loss)
