"""A token that the embedding has no row for: IndexError.

Operation torch.nn.functional.embedding in module embed, row 10, step 119, an exception.
"""

import torch
from telling import Telling
from torch import nn


class Tagger(nn.Module):
    """Predicts the parity of each token."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(40, 8)
        self.out = nn.Linear(8, 2)

    def forward(self, tokens):
        return self.out(torch.relu(self.embed(tokens)))  # <- here


def corpus():
    """Yield tokens (14, 6), 130 times."""
    for number in range(130):
        tokens = torch.randint(0, 40, (14, 6))
        if number == 119:
            tokens[10, 4] = 40
        yield tokens


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(12)
    model = Tagger()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    tell = Telling(model)
    for step, tokens in enumerate(corpus()):
        tell(step)
        scores = model(tokens)
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), (tokens % 2).flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
