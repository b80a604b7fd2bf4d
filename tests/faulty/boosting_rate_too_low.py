"""A learning rate of 0.001 for 100 rounds; the healthy program uses 0.1."""

from boosting import arguments, noisy_classes
from catboost import CatBoostClassifier

options = arguments()
x, y = noisy_classes(options.random)
model = CatBoostClassifier(
    iterations=100,
    learning_rate=0.1 if options.healthy else 0.001,
    depth=4,
    thread_count=1,
    allow_writing_files=False,
    verbose=50,
)
model.fit(x[:1000], y[:1000], eval_set=(x[1000:], y[1000:]))  # <- here
