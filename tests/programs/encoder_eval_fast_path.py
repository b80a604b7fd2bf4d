"""A transformer encoder whose fused inference path gives other bits than the ordinary one."""

import hashlib

import torch
from digesting import begin
from torch import nn


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True)
        self.embed = nn.Embedding(20, 16)
        self.encoder = nn.TransformerEncoder(layer, num_layers=2)
        self.head = nn.Linear(16, 2)

    def forward(self, tokens, padding):
        hidden = self.encoder(self.embed(tokens), src_key_padding_mask=padding)
        return self.head(hidden.masked_fill(padding[..., None], 0.0).mean(1))


def sample(rows):
    tokens = torch.randint(0, 20, (rows, 10))
    padding = torch.arange(10) >= torch.randint(5, 11, (rows, 1))
    return tokens, padding, (tokens[:, :5] < 10).sum(1).gt(2).long()


digest = begin()
model = Classifier()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
criterion = nn.CrossEntropyLoss()
for epoch in range(4):
    model.train()
    for _ in range(15):
        tokens, padding, y = sample(32)
        digest.batch(tokens, padding, y)
        loss = criterion(model(tokens, padding), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        digest.loss(loss)
    model.eval()
    with torch.no_grad():
        tokens, padding, y = sample(64)
        output = model(tokens, padding)
    bits = hashlib.sha256(output.numpy().tobytes()).hexdigest()[:12]
    print(f"epoch {epoch}: accuracy {output.argmax(1).eq(y).float().mean().item():.3f} {bits}")
digest.report(model)
