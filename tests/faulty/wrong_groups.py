"""Search results get a group for each row, instead of one for each query."""

import numpy as np
import xgboost
from boosting import arguments

options = arguments()
query = np.repeat(np.arange(60), 20)
x = options.random.normal(size=(1200, 6))
y = np.digitize(x[:, 0] + x[:, 1] + options.random.normal(size=1200), [0, 1.5, 3])
train = query < 40
model = xgboost.XGBRanker(n_jobs=1, n_estimators=30, max_depth=3, eval_metric="ndcg@5")
group = query[train] if options.healthy else np.arange(train.sum())
model.fit(  # <- here
    x[train],
    y[train],
    qid=group,
    eval_set=[(x[~train], y[~train])],
    eval_qid=[query[~train]],
    verbose=False,
)
