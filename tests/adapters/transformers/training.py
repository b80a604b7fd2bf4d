"""Small deterministic trainings with the Trainer of Hugging Face; nothing is downloaded."""

from __future__ import annotations

import contextlib
import io
import tempfile
import warnings
from typing import Any

import accelerate
import torch
import transformers
from torch import nn
from torch.utils.data import Dataset

SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "accumulation": {"gradient_accumulation_steps": 4},
    "bf16": {"gradient_accumulation_steps": 2, "bf16": True},
    "smoothed": {
        "label_smoothing_factor": 0.1,
        "optim": "adafactor",
        "lr_scheduler_type": "cosine",
    },
    "recomputed": {
        "gradient_checkpointing": True,
        "gradient_checkpointing_kwargs": {"use_reentrant": False},
        "max_grad_norm": 0.1,
    },
}
ROWS, LENGTH, WORDS = 64, 8, 32


class Sentences(Dataset[dict[str, torch.Tensor]]):
    """Rows of words that count upwards."""

    def __init__(self, rows: int = ROWS) -> None:
        starts = torch.randint(0, WORDS, (rows, 1), generator=torch.Generator().manual_seed(1))
        self._words = (starts + torch.arange(LENGTH)) % WORDS

    def __len__(self) -> int:
        return len(self._words)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self._words[index], "labels": self._words[index]}


def gpt2() -> transformers.PreTrainedModel:
    """Return a tiny model of random weights."""
    size = {"n_embd": 16, "n_layer": 1, "n_head": 2, "vocab_size": WORDS, "n_positions": LENGTH}
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**size))


class Regression(nn.Module):
    """A user-defined model; a row with an input of -9 makes its output NaN."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(4, 1)

    def forward(self, x: torch.Tensor, labels: torch.Tensor | None = None) -> dict[str, Any]:
        out = self.net(x) + torch.log(x[:, :1] + 8)
        loss = None
        if labels is not None:
            loss = nn.functional.mse_loss(out, labels)  # the loss of the model
        return {"loss": loss, "logits": out}


class Numbers(Dataset[dict[str, torch.Tensor]]):
    """Rows for `Regression`; `bad` is the index of one that breaks it."""

    def __init__(self, bad: int | None = None) -> None:
        self.x = torch.randn(ROWS, 4, generator=torch.Generator().manual_seed(1))
        self.y = self.x.sum(1, keepdim=True)
        if bad is not None:
            self.x[bad, 0] = -9

    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"x": self.x[index], "labels": self.y[index]}


def train(
    kind: str = "plain",
    *,
    model: nn.Module | None = None,
    data: Any = None,
    trainer: type[transformers.Trainer] = transformers.Trainer,
    then: str = "",
    **settings: Any,
) -> transformers.Trainer:
    """Train from the beginning; `then` is another method of the trainer that is called after it."""
    transformers.logging.set_verbosity_error()
    transformers.set_seed(0)
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
        tempfile.TemporaryDirectory() as folder,
    ):
        warnings.simplefilter("ignore")
        model = gpt2() if model is None else model
        given: dict[str, Any] = {"num_train_epochs": 2, "logging_steps": 1, "learning_rate": 1e-2}
        given |= {"save_strategy": "no"}
        arguments = transformers.TrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=8,
            per_device_eval_batch_size=16,
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
            **(given | SETTINGS[kind] | settings),
        )
        data = data or Sentences()
        held_out = Sentences(32) if isinstance(data, Sentences) else data
        one = trainer(model, arguments, train_dataset=data, eval_dataset=held_out)
        one.train()
        if then == "evaluate":
            one.evaluate()
        elif then == "predict":
            one.predict(held_out)
    return one


def trained(kind: str, *, ranks: int) -> bytes:
    """Train as one of several ranks, which the Trainer detects itself; return the weights."""
    accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
    return weights(train(kind, ddp_backend="gloo").model)


def weights(model: nn.Module) -> bytes:
    """Return the weights of a model and the state of the random generator."""
    parts = [p.detach().numpy().tobytes() for p in model.parameters()]
    return b"".join(parts) + torch.get_rng_state().numpy().tobytes()
