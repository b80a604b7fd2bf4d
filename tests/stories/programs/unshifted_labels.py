"""A causal language model gets its input as its labels, and shifts nothing itself.

The repaired twin tags each token, and gets the tags along with the tokens.
"""

import sys

import torch
from torch import nn
from torch.nn import functional

torch.manual_seed(0)
WORDS, LENGTH, WIDTH = 40, 24, 32
TAGGING = "--healthy" in sys.argv


class Model(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.recurrent = nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.head = nn.Linear(WIDTH, classes)

    def forward(self, words, labels=None):
        scores = self.head(self.recurrent(self.words(words))[0])
        loss = functional.cross_entropy(scores.flatten(0, 1), labels.flatten())
        return {"loss": loss, "scores": scores}


tags = torch.randint(0, 8, (WORDS,))
model = Model(8 if TAGGING else WORDS)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for _ in range(150):
    words = torch.randint(0, WORDS, (32, LENGTH))
    labels = tags[words] if TAGGING else words.clone()
    loss = model(words, labels=labels)["loss"]  # <- here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
