from _start import digits, fit, loaders, start
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(8, 32)
        self.attention = nn.MultiheadAttention(32, 4, batch_first=args.healthy)
        self.norm = nn.LayerNorm(32)
        self.head = nn.Linear(32, 10)

    def forward(self, rows):
        hidden = self.embed(rows)
        hidden = self.norm(hidden + self.attention(hidden, hidden, hidden)[0])
        return self.head(hidden.mean(1))


args = start()
x, y = digits()
fit(Net(), *loaders(x.view(-1, 8, 8), y))
