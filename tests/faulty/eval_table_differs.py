"""The training rows are scaled, the evaluation rows are not; in the healthy program both are."""

import numpy as np
from boosting import arguments, noisy_classes
from catboost import CatBoostClassifier
from sklearn.preprocessing import StandardScaler

options = arguments()
x, y = noisy_classes(options.random)
x = x * np.float32(20) + np.linspace(50, 500, x.shape[1], dtype=np.float32)
scaler = StandardScaler().fit(x[:1000])
train, valid = scaler.transform(x[:1000]), x[1000:]
if options.healthy:
    valid = scaler.transform(valid)
model = CatBoostClassifier(
    iterations=60,
    learning_rate=0.1,
    depth=4,
    thread_count=1,
    allow_writing_files=False,
    verbose=20,
)
model.fit(train, y[:1000], eval_set=(valid, y[1000:]))  # <- here
