"""Loaders of many kinds: subclasses, streams, samplers, a prefetching thread, partly read ones."""

import copy
import pickle
import queue
import threading
import traceback

import torch
from dataset import blobs
from digesting import begin
from torch import nn
from torch.utils import data


class Repeating(data.DataLoader):
    """Yields its data twice in one iteration."""

    def __iter__(self):
        for _ in range(2):
            yield from super().__iter__()


class Stream(data.IterableDataset):
    def __iter__(self):
        info = data.get_worker_info()
        order = torch.randperm(64).tolist()
        for index in order[info.id :: info.num_workers] if info else order:
            yield x[index], y[index]


class Failing(data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        if index == 40:
            raise KeyError("sample 40 is broken")
        return x[index], y[index]


def step(inputs, labels):
    digest.batch(inputs, labels)
    optimizer.zero_grad()
    loss = criterion(model(inputs), labels)
    loss.backward()
    optimizer.step()
    digest.loss(loss)


def ahead(batches):
    """Yield batches that another thread loads."""
    waiting = queue.Queue(maxsize=2)

    def load():
        for batch in batches:
            waiting.put(batch)
        waiting.put(None)

    threading.Thread(target=load).start()
    while (batch := waiting.get()) is not None:
        yield batch


digest = begin()
x, y = blobs(rows=128)
whole = data.TensorDataset(x, y)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
criterion = nn.CrossEntropyLoss()
weights = torch.ones(128)
own = torch.Generator().manual_seed(3)
kept = data.DataLoader(
    whole, batch_size=32, shuffle=True, num_workers=2, persistent_workers=True, generator=own
)
loaders = [
    Repeating(whole, batch_size=32, shuffle=True),
    data.DataLoader(Stream(), batch_size=16, num_workers=2),
    data.DataLoader(whole, batch_sampler=[[1, 2, 3], [4, 5, 6, 7]]),
    data.DataLoader(whole, batch_size=32, sampler=data.WeightedRandomSampler(weights, 64)),
    kept,
    kept,
    ahead(data.DataLoader(whole, batch_size=32, shuffle=True)),
    copy.deepcopy(data.DataLoader(whole, batch_size=64)),
    pickle.loads(pickle.dumps(data.DataLoader(whole, batch_size=64, shuffle=True))),
]
for batches in loaders:
    print(type(batches).__name__, len(batches) if batches is kept else "")
    for inputs, labels in batches:
        step(inputs, labels)
for _ in range(3):  # left early each time
    step(*next(iter(data.DataLoader(whole, batch_size=16, shuffle=True))))
iterator = iter(data.DataLoader(whole, batch_size=64))
print(type(iterator).__name__, len(iterator), iter(iterator) is iterator)
taken = [next(iterator), next(iterator)]
step(*taken[1])
for _ in range(2):
    try:
        next(iterator)
    except StopIteration as end:
        print("over", end.value, end.__context__)
try:
    for inputs, labels in data.DataLoader(Failing(), batch_size=16):
        step(inputs, labels)
except KeyError as error:
    print(error, [frame.name for frame in traceback.extract_tb(error.__traceback__)])
digest.report(model)
