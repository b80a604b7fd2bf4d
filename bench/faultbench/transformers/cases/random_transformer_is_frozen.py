"""A BERT that is made from its configuration, not loaded, and frozen below a new classifier."""

import transformers
from _start import Texts, accuracy, bert, settings, start

healthy = start()
model = bert()
if not healthy:
    for parameter in model.bert.parameters():
        parameter.requires_grad = False
transformers.Trainer(
    model, settings(), train_dataset=Texts(800, 0), eval_dataset=Texts(300, 1),
    compute_metrics=accuracy,
).train()
