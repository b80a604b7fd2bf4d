"""A mean over the words of each text; one text has none: 0 / 0.

Operation torch.div in module pool, row 7, step 131. A collate function pads.
"""

import torch
from telling import Telling
from torch import nn
from torch.utils.data import DataLoader


class MaskedMean(nn.Module):
    """The mean over the words that are there."""

    def forward(self, words, mask):
        return (words * mask).sum(1) / mask.sum(1)  # <- here


class Texts(nn.Module):
    """Classifies texts by the mean of their words."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 12)
        self.pool = MaskedMean()
        self.out = nn.Linear(12, 2)

    def forward(self, tokens, mask):
        return self.out(self.pool(self.embed(tokens), mask.unsqueeze(-1).float()))


def padded(texts):
    """Return tokens (rows, longest), their mask, and labels."""
    longest = max(len(tokens) for tokens, _ in texts)
    tokens = torch.zeros(len(texts), longest, dtype=torch.long)
    for row, (text, _) in enumerate(texts):
        tokens[row, : len(text)] = torch.tensor(text, dtype=torch.long)
    return {"tokens": tokens, "mask": tokens > 0}, torch.tensor([label for _, label in texts])


def main():
    """Train over 140 batches."""
    torch.set_num_threads(1)
    torch.manual_seed(11)
    texts = []
    for number in range(140 * 9):
        length = 0 if number == 131 * 9 + 7 else 1 + number % 11
        words = torch.randint(1, 50, (length,)).tolist()
        texts.append((words, int(sum(words) % 2)))
    model = Texts()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    criterion = nn.CrossEntropyLoss()
    tell = Telling(model)
    for step, (batch, labels) in enumerate(DataLoader(texts, batch_size=9, collate_fn=padded)):
        tell(step)
        optimizer.zero_grad()
        loss = criterion(model(**batch), labels)
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
