"""NumPy arrays and byte buffers beside a training that grow in place."""

import array

import numpy as np
import torch
from telling import begin, tell
from torch import nn

begin()
model = nn.Linear(8, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
rows, labels = np.zeros((4, 8), np.float32), np.zeros(4, np.int64)
raw, numbers = bytearray(8), array.array("f", [0.0])
for step in range(70):
    rows.resize((4 + step, 8))
    labels.resize(4 + step)
    rows[:], labels[:] = np.random.randn(4 + step, 8), np.random.randint(0, 3, 4 + step)
    raw.extend(b"12345678")
    numbers.append(float(step))
    x, y = torch.tensor(rows), torch.tensor(labels)
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
tell(model, rows.sum(), labels.sum(), len(raw), len(numbers))
