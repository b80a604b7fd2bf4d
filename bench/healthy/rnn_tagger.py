"""An LSTM that tags each position of a padded sequence; padding is ignored by the loss."""

import torch
from _common import seeded
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import DataLoader

options = seeded(epochs=5)
PAD = 0


def example():
    """Tag 1 where a token was seen before in the sentence, else 0."""
    length = torch.randint(6, 16, (1,)).item()
    tokens = torch.randint(1, 20, (length,))
    tags = torch.tensor([int(t in tokens[:i]) for i, t in enumerate(tokens)])
    return tokens, tags


def collate(rows):
    lengths = torch.tensor([len(tokens) for tokens, _ in rows])
    tokens = pad_sequence([t for t, _ in rows], batch_first=True, padding_value=PAD)
    tags = pad_sequence([t for _, t in rows], batch_first=True, padding_value=-100)
    return tokens, lengths, tags


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(20, 32, padding_idx=PAD)
        self.lstm = nn.LSTM(32, 48, batch_first=True, bidirectional=True)
        self.head = nn.Linear(96, 2)

    def forward(self, tokens, lengths):
        packed = pack_padded_sequence(
            self.embedding(tokens), lengths, batch_first=True, enforce_sorted=False
        )
        states, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        return self.head(states)


loader = DataLoader(
    [example() for _ in range(800)], batch_size=32, shuffle=True, collate_fn=collate
)
model = Tagger()
optimizer = torch.optim.RMSprop(model.parameters(), lr=3e-3)
criterion = nn.CrossEntropyLoss(ignore_index=-100)
for epoch in range(options.epochs):
    total = 0.0
    for tokens, lengths, tags in loader:
        loss = criterion(model(tokens, lengths).transpose(1, 2), tags)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        total += loss.item()
    print(f"epoch {epoch}: {total / len(loader):.4f}")
