"""Under autocast to float16 a feature of 90,000 becomes infinite where it enters a layer.

Operation conversion to torch.float16, in module encode, row 8, step 121. A DataLoader that
shuffles.
"""

import torch
from telling import Telling
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Model(nn.Module):
    """Encodes counts, then regresses."""

    def __init__(self):
        super().__init__()
        self.encode = nn.Linear(4, 16)
        self.out = nn.Linear(16, 1)

    def forward(self, x):
        hidden = torch.tanh(self.encode(x))  # <- here
        return self.out(hidden)


torch.set_num_threads(1)
torch.manual_seed(3)
counts = torch.rand(20 * 140, 4)
targets = counts.sum(1, keepdim=True)
counts[877, 2] = 90_000.0
order = torch.Generator().manual_seed(45)
loader = DataLoader(TensorDataset(counts, targets), batch_size=20, shuffle=True, generator=order)
model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
tell = Telling(model)
for step, (x, y) in enumerate(loader):
    tell(step)
    with torch.autocast("cpu", dtype=torch.float16):
        predicted = model(x)
    loss = nn.functional.mse_loss(predicted.float(), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
