"""Values read from a run are, bit for bit, those that the program itself had."""

from __future__ import annotations

import json
from pathlib import Path

import ml_dtypes  # noqa: F401  (numpy finds bfloat16 by its name)
import numpy as np
import pytest
from tests.harness.running import PYTHON, environment, observed, run

import mothtrap
from mothtrap.adapters.torch import REPORTS
from mothtrap.core.steps import Mode

STEPS = 5
SCRIPT = """
import sys
import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
own = {}

def keep(name, tensor):
    values = tensor.detach().contiguous()
    own.setdefault(name, []).append(values.reshape(-1).view(torch.uint8).numpy().copy())

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(6, 16, dtype=torch.bfloat16), nn.Linear(16, 3)
        self.register_buffer("calls", torch.zeros(2))

    def forward(self, x, *, keys):
        self.calls += 1
        hidden = self.body(x)
        mode = "train" if self.training else "eval"
        keep(f"{mode} activation:body", hidden)
        keep(f"{mode} input:Net.0", x)
        keep(f"{mode} input:Net.keys.0", keys[0])
        if self.training:
            hidden.register_hook(lambda g: keep("train activation_gradient:body", g))
        out = self.head(hidden.tanh().float()) + keys[0]
        keep(f"{mode} output:Net.logits", out)
        return {"logits": out}

model, loss_of = Net(), nn.CrossEntropyLoss()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
weight, bias = model.body.weight, model.head.bias
for step in range(STEPS):
    x, y = torch.randn(4, 6).bfloat16(), torch.randint(0, 3, (4,))
    keys = [torch.randint(0, 9, (4, 1), dtype=torch.int16)]
    loss = loss_of(model(x, keys=keys)["logits"], y)
    optimizer.zero_grad()
    loss.backward()
    keep("train buffer:calls", model.calls)
    keep("train weight:body.weight", weight)
    keep("train bias:head.bias", bias)
    keep("train gradient:body.weight", weight.grad)
    before = weight.detach().clone()
    optimizer.step()
    keep("train update:body.weight", weight.detach() - before)
    keep("train optimizer_state:body.weight.exp_avg", optimizer.state[weight]["exp_avg"])
    keep("train loss:", loss)
    keep("train label:", y)
model.eval()
with torch.no_grad():
    out = model(x, keys=keys)["logits"]
    keep("eval loss:", loss_of(out, y))
    keep("eval label:", y)
np.savez(sys.argv[1], **{name: np.stack(values) for name, values in own.items()})
""".replace("STEPS", str(STEPS))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder with the run `seen` and the values saved by the program, `own.npz`."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "train.py").write_text(SCRIPT, encoding="utf-8")
    plain = run([*PYTHON, "train.py", "plain.npz"], cwd=folder)
    assert plain.returncode == 0, plain.stderr
    whole = {"tensors": ["*"], "raw": True, "modes": ["train", "eval"]}
    seen = run(
        observed(["train.py", "own.npz"], runs_dir=folder, name="seen"),
        cwd=folder,
        env=environment(MOTHTRAP_OVERHEAD="0", MOTHTRAP_COLLECTIONS=json.dumps({"whole": whole})),
    )
    assert seen.returncode == 0, seen.stderr
    return folder


def differing(folder: Path, own: str) -> list[str]:
    """Return the names of tensors that differ from the program's in any step."""
    reader = mothtrap.open_run(folder / "seen")
    kept = np.load(folder / own)
    found = []
    for name in kept.files:
        mode, _, identity = name.partition(" ")
        # The program cannot know the code lines in the names of losses and labels.
        kind = identity.removesuffix(":")
        tensors = [reader.tensor(identity)] if kind == identity else reader.tensors(kind=kind)
        read = [v for t in tensors for _, v in t.values(Mode(mode))]
        bits = [np.ascontiguousarray(v).reshape(-1).view(np.uint8) for v in read]
        if len(bits) != len(kept[name]) or not all(map(np.array_equal, bits, kept[name])):
            found.append(name)
    return found


def test_every_kind_is_read_as_the_program_had_it(folder: Path) -> None:
    assert differing(folder, "own.npz") == []
    assert differing(folder, "plain.npz") == []
    kinds = {name.partition(" ")[2].partition(":")[0] for name in np.load(folder / "own.npz").files}
    assert kinds == REPORTS.kinds


def test_types_are_those_of_the_program(folder: Path) -> None:
    reader = mothtrap.open_run(folder / "seen")
    types = {
        "activation:body": "bfloat16",
        "input:Net.keys.0": "int16",
        "weight:head.weight": "float32",
    }
    for identity, dtype in types.items():
        assert reader.tensor(identity).at(STEPS - 1, Mode.TRAIN).dtype.name == dtype


def test_one_wrong_bit_is_named(folder: Path) -> None:
    own = dict(np.load(folder / "own.npz"))
    own["train update:body.weight"] = own["train update:body.weight"].copy()
    own["train update:body.weight"][2, 7] ^= 1
    own["eval label:"] = own["eval label:"][:0]
    np.savez(folder / "wrong.npz", **own)
    assert differing(folder, "wrong.npz") == ["train update:body.weight", "eval label:"]
