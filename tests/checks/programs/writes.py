"""Trains a small model, and writes a log, a checkpoint, a database, and a file of its own."""

from __future__ import annotations

import logging
import os
import shutil
import socket
import sqlite3
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

logging.basicConfig(filename="train.log", level=logging.INFO)
torch.manual_seed(0)
x = torch.randn(256, 6)
data = TensorDataset(x, (x[:, 0] > 0).long())
loader = DataLoader(data, 32, shuffle=True)
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2))
optimizer = torch.optim.Adam(model.parameters(), 0.01)
base = sqlite3.connect("scores.db")
base.execute("create table if not exists losses (step integer, loss real)")
Path("out").mkdir(exist_ok=True)
if os.path.exists("old.pt"):
    os.remove("old.pt")
if "--connect" in sys.argv:
    socket.create_connection(("192.0.2.1", 80), timeout=1)
step = 0
for _epoch in range(50):
    for inputs, labels in loader:
        loss = nn.functional.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        logging.info("step %d: %.4f", step, loss.item())
        base.execute("insert into losses values (?, ?)", (step, loss.item()))
        base.commit()
        torch.save(model.state_dict(), "model.pt")
        torch.save(model.state_dict(), Path("out") / f"{step}.pt")
        np.save("losses.npy", np.array(loss.item()))
        with open("history.txt", "a") as file:
            file.write(f"{loss.item()}\n")
        os.replace("model.pt", "best.pt")
        shutil.copy("best.pt", "copy.pt")
        assert Path("best.pt").exists()
        assert len(torch.load("best.pt")) == 4
        assert Path("history.txt").read_text().count("\n") >= step
