"""User-defined losses that ignore the number of items that the Trainer passes."""

from __future__ import annotations

import tempfile
from typing import Any

import pytest

transformers = pytest.importorskip("transformers")

from tests.adapters.transformers.training import Sentences, gpt2  # noqa: E402
from torch.nn import functional  # noqa: E402

from mothtrap.adapters.transformers import ADAPTER  # noqa: E402
from mothtrap.core.facts.trainers import UndividedLoss  # noqa: E402
from mothtrap.testing.adapters import Process  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


def own_loss(model: Any, inputs: Any) -> Any:
    logits = model(input_ids=inputs["input_ids"]).logits
    return functional.cross_entropy(logits[:, :-1].flatten(0, 1), inputs["labels"][:, 1:].flatten())


class Ignoring(transformers.Trainer):
    def compute_loss(
        self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        return own_loss(model, inputs)


class IgnoringAll(transformers.Trainer):
    def compute_loss(self, model: Any, inputs: Any, return_outputs: bool = False, **_: Any) -> Any:
        return own_loss(model, inputs)


class Dividing(transformers.Trainer):
    def compute_loss(
        self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        rows = inputs["labels"].shape[0] * (inputs["labels"].shape[1] - 1)
        return own_loss(model, inputs) * rows / num_items_in_batch


class Passing(transformers.Trainer):
    def compute_loss(
        self, model: Any, inputs: Any, return_outputs: bool = False, **given: Any
    ) -> Any:
        return super().compute_loss(model, inputs, return_outputs, **given)


def told(kind: type[Any], *, steps: int = 4, divides: bool = False) -> list[tuple[str, int]]:
    process = Process("torch")
    transformers.logging.set_verbosity_error()
    with process.watched(ADAPTER), tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=4,
            gradient_accumulation_steps=steps,
            num_train_epochs=1,
            report_to=[],
            use_cpu=True,
            save_strategy="no",
            disable_tqdm=True,
        )
        one = kind(gpt2(), arguments, train_dataset=Sentences())
        if divides:
            one.model_accepts_loss_kwargs = False
        one.train()
    seen = [fact for fact in process.facts() if isinstance(fact, UndividedLoss)]
    return [(fact.trainer, fact.micro_batches) for fact in seen]


@pytest.mark.parametrize("kind", [Ignoring, IgnoringAll])
def test_a_loss_that_ignores_the_number_of_items_is_reported_once(kind: type[Any]) -> None:
    assert told(kind) == [(kind.__name__, 4)]


@pytest.mark.parametrize("kind", [Dividing, Passing, transformers.Trainer])
def test_a_loss_that_uses_it_is_not_reported(kind: type[Any]) -> None:
    assert told(kind) == []


def test_where_the_trainer_divides_nothing_is_reported() -> None:
    assert told(Ignoring, divides=True) == []
    assert told(Ignoring, steps=1) == []
