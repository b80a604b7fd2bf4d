import torch
import torch.nn.functional as F
from _start import start
from torch import nn

args = start()
VOCABULARY, LENGTH, PAD = 24, 16, 0
after = torch.randint(1, VOCABULARY, (VOCABULARY, 3))


def sequences(rows=32):
    tokens = torch.randint(1, VOCABULARY, (rows, 1))
    for _ in range(LENGTH):
        choice = torch.randint(0, 3, (rows, 1))
        tokens = torch.cat([tokens, after[tokens[:, -1:], choice].view(-1, 1)], 1)
    return tokens


class LabelSmoothing(nn.Module):
    def __init__(self, size, smoothing=0.1):
        super().__init__()
        self.criterion = nn.KLDivLoss(reduction="sum")
        self.size, self.smoothing = size, smoothing

    def forward(self, x, target):
        dist = torch.full_like(x.detach(), self.smoothing / (self.size - 2))
        dist.scatter_(1, target.unsqueeze(1), 1 - self.smoothing)
        dist[:, PAD] = 0
        dist[target == PAD] = 0
        return self.criterion(x, dist)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, 32)
        self.positions = nn.Parameter(0.1 * torch.randn(LENGTH + 1, 32))
        self.layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
        self.out = nn.Linear(32, VOCABULARY)

    def forward(self, tokens):
        size = tokens.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(size)
        x = self.embed(tokens) + self.positions[:size]
        return F.log_softmax(self.out(self.layer(x, mask, is_causal=True)), dim=-1)


model, criterion = Model(), LabelSmoothing(VOCABULARY)
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(200):
    tokens = sequences()
    given = tokens[:, :-1]
    target = tokens[:, 1:] if args.healthy else tokens[:, :-1]
    logs = model(given)
    loss = criterion(logs.reshape(-1, VOCABULARY), target.reshape(-1)) / target.numel()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 50 == 0:
        print(step, loss.item())
