"""The cases as scripts of Hugging Face's Trainer."""

from __future__ import annotations

import tempfile
import warnings

import torch
import transformers
from programs import CASES, arguments, optimizer_of
from torch import nn
from torch.utils.data import Dataset, SequentialSampler


class Rows(Dataset):
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return {"x": self.x[index], "labels": self.y[index]}


class Model(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x, labels=None):
        return {"logits": self.model(x)}


class WithLoss(Model):
    """The loss is computed by the model, as in models of the library."""

    def forward(self, x, labels=None):
        logits = self.model(x)
        loss = None
        if labels is not None:
            loss = nn.functional.cross_entropy(logits, labels)  # the loss
        return {"loss": loss, "logits": logits}


class Classifier(transformers.Trainer):
    ordered = False
    healthy = True

    def _get_train_sampler(self, *given):
        return SequentialSampler(self.train_dataset) if self.ordered else super()._get_train_sampler(*given)


class Regression(Classifier):
    def compute_loss(self, model, inputs, return_outputs=False, **_):
        outputs = model(x=inputs["x"])
        loss = nn.functional.mse_loss(outputs["logits"], inputs["labels"])  # the loss
        return (loss, outputs) if return_outputs else loss


class SquaredError(Classifier):
    def compute_loss(self, model, inputs, return_outputs=False, **_):
        outputs = model(x=inputs["x"])
        out, y = outputs["logits"], inputs["labels"]
        if self.healthy:
            out = out.squeeze(1)
        loss = ((out - y) ** 2).mean()  # the loss
        return (loss, outputs) if return_outputs else loss


class Likelihood(Classifier):
    def compute_loss(self, model, inputs, return_outputs=False, **_):
        outputs = model(x=inputs["x"])
        log_p = torch.log_softmax(outputs["logits"], 1).gather(1, inputs["labels"][:, None])
        loss = -log_p.mean() if self.healthy else log_p.mean()  # the loss
        return (loss, outputs) if return_outputs else loss


class Binary(Classifier):
    def compute_loss(self, model, inputs, return_outputs=False, **_):
        outputs = model(x=inputs["x"])
        z, y = outputs["logits"].squeeze(1), inputs["labels"]
        if self.healthy:
            loss = nn.functional.binary_cross_entropy_with_logits(z, y)
        else:
            p = torch.sigmoid(z)
            loss = -(y * torch.log(p) + (1 - y) * torch.log(1 - p)).mean()  # the loss
        return (loss, outputs) if return_outputs else loss


class Language(Classifier):
    def compute_loss(self, model, inputs, return_outputs=False, **_):
        outputs = model(x=inputs["x"])
        logits, y = outputs["logits"], inputs["labels"]
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), y.flatten())  # the loss
        return (loss, outputs) if return_outputs else loss


TRAINERS = {
    "mse_broadcast": SquaredError,
    "lr_diverges": Regression,
    "overfit_small_data": Regression,
    "loss_sign_flipped": Likelihood,
    "log_of_zero_late": Binary,
    "labels_not_shifted": Language,
}


def schedule_of(name, optimizer, healthy, steps):
    """The Trainer steps its schedule after each batch, whatever it is."""
    if name != "scheduler_per_batch":
        return torch.optim.lr_scheduler.ConstantLR(optimizer, factor=1.0)
    if healthy:
        return torch.optim.lr_scheduler.StepLR(optimizer, steps, gamma=0.9)
    return torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.9)


def main(name, healthy, seed=0):
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    transformers.set_seed(seed)
    case = CASES[name](healthy)
    Xt, yt, Xv, yv = case.data
    kind = TRAINERS.get(name, Classifier)
    model = (WithLoss if kind is Classifier else Model)(case.model)
    optimizer = optimizer_of(case, model.parameters())
    steps = -(-len(Xt) // case.batch)
    with tempfile.TemporaryDirectory() as folder:
        settings = transformers.TrainingArguments(
            output_dir=folder, per_device_train_batch_size=case.batch, per_device_eval_batch_size=256,
            num_train_epochs=case.epochs, max_grad_norm=0.0, logging_steps=5, eval_strategy="epoch", report_to=[],
            use_cpu=True, save_strategy="no", disable_tqdm=True,
        )
        trainer = kind(
            model, settings, train_dataset=Rows(Xt, yt), eval_dataset=Rows(Xv, yv),
            optimizers=(optimizer, schedule_of(name, optimizer, healthy, steps)),
        )
        trainer.ordered, trainer.healthy = not case.shuffle, healthy
        trainer.train()


if __name__ == "__main__":
    given = arguments()
    main(given.case, given.healthy, given.seed)
