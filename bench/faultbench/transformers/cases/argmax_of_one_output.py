"""A binary loss of one output: `compute_metrics` takes the largest of one number, always the first."""

import numpy as np
import torch
import transformers
from _start import Texts, bert, settings, start

healthy = start()


class Binary(transformers.Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, **_):
        labels = inputs.pop("labels").float()
        outputs = model(**inputs)
        logits = outputs.logits.squeeze(-1)
        loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, labels)
        return (loss, outputs) if return_outputs else loss


def compute_metrics(given):
    logits, labels = given
    predicted = logits[:, 0] > 0 if healthy else np.argmax(logits, axis=-1)
    return {"accuracy": float((predicted == labels).mean())}


Binary(
    bert(labels=1), settings(), train_dataset=Texts(800, 0, 2), eval_dataset=Texts(300, 1, 2),
    compute_metrics=compute_metrics,
).train()
