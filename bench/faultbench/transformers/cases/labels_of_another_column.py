"""The labels are those of a column that has nothing to do with the text."""

import transformers
from _start import Texts, accuracy, bert, settings, start

healthy = start()
train, test = Texts(800, 0), Texts(300, 1)
if not healthy:
    train.label = test.label = "source"
transformers.Trainer(
    bert(), settings(num_train_epochs=12), train_dataset=train, eval_dataset=test,
    compute_metrics=accuracy,
).train()
