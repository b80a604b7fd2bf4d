"""Trees of 500 leaves, each of one row if it must be."""

import lightgbm
from _common import loans, split, start

o = start()
x, y = loans(o.rng, rows=2000)
xt, yt, xv, yv = split(x, y)
limits = {"num_leaves": 15} if o.healthy else {"num_leaves": 500, "min_child_samples": 1}
model = lightgbm.LGBMClassifier(
    n_estimators=o.rounds, learning_rate=0.1, n_jobs=1, verbose=-1, **limits
)
stop = [lightgbm.early_stopping(20, verbose=False)] if o.healthy else []
model.fit(xt, yt, eval_X=(xt, xv), eval_y=(yt, yv), callbacks=stop)
