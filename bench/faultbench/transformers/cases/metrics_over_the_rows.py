"""`compute_metrics` takes the largest row of each class instead of the largest class of each row."""

import numpy as np
import transformers
from _start import Texts, bert, settings, start

healthy = start()


def compute_metrics(given):
    logits, labels = given
    predicted = np.argmax(logits, axis=-1 if healthy else 0)
    return {"accuracy": float((predicted == labels[: len(predicted)]).mean())}


transformers.Trainer(
    bert(), settings(), train_dataset=Texts(800, 0), eval_dataset=Texts(300, 1),
    compute_metrics=compute_metrics,
).train()
