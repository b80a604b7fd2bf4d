"""A custom loop with an Accelerator that accumulates."""

import accelerate
import torch
from rows import EPOCHS, SIZE, network, rows
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

x, y = rows()
accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=4)
loader = DataLoader(TensorDataset(x, y), SIZE, shuffle=True)
model = network()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
updates = 0
for epoch in range(EPOCHS):
    for batch, targets in loader:
        with accelerator.accumulate(model):
            out = model(batch)
            energy = batch[:, :1]
            if epoch >= 2:
                energy = torch.log(energy.abs())  # <- here
            loss = nn.functional.mse_loss(out + energy / (1 + updates), targets)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            updates += accelerator.sync_gradients
