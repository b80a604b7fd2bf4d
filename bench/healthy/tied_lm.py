"""A GRU language model whose output weights are the embedding's, hidden state carried over."""

import torch
import torch.nn.functional as F
from _common import seeded
from torch import nn

options = seeded(epochs=4)
VOCABULARY, WIDTH, STREAMS, BPTT = 40, 48, 16, 24
transition = torch.softmax(3 * torch.randn(VOCABULARY, VOCABULARY), dim=1)
tokens = [0]
for _ in range(STREAMS * 480):
    tokens.append(torch.multinomial(transition[tokens[-1]], 1).item())
streams = torch.tensor(tokens[: STREAMS * 480]).view(STREAMS, -1).t().contiguous()


class LanguageModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.rnn = nn.GRU(WIDTH, WIDTH)
        self.drop = nn.Dropout(0.1)
        self.decoder = nn.Linear(WIDTH, VOCABULARY)
        self.decoder.weight = self.embedding.weight
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)
        nn.init.zeros_(self.decoder.bias)

    def forward(self, x, state):
        out, state = self.rnn(self.drop(self.embedding(x)), state)
        return self.decoder(self.drop(out)), state


model = LanguageModel()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for epoch in range(options.epochs):
    state, total, count = None, 0.0, 0
    for i in range(0, streams.size(0) - 1 - BPTT, BPTT):
        x, y = streams[i : i + BPTT], streams[i + 1 : i + 1 + BPTT]
        state = state.detach() if state is not None else None
        logits, state = model(x, state)
        loss = F.cross_entropy(logits.view(-1, VOCABULARY), y.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        total, count = total + loss.item(), count + 1
    print(f"epoch {epoch}: perplexity {torch.tensor(total / count).exp().item():.1f}")
