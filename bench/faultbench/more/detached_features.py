import torch
from _start import start
from torch import nn

args = start()


class Attend(nn.Module):
    def __init__(self, width=32, vocab=30):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        layer = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.head = nn.Linear(width, 2)

    def forward(self, tokens):
        h = self.encoder(self.embed(tokens)).mean(1)
        if not args.healthy:
            h = h.detach()
        return self.head(h)


model = Attend()
opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
for step in range(200):
    tokens = torch.randint(0, 30, (64, 12))
    label = ((tokens == 3).any(1) | (tokens == 7).any(1)).long()
    loss = nn.functional.cross_entropy(model(tokens), label)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 50 == 0:
        print(step, loss.item())
