"""Labels were sorted by themselves."""

import lightgbm
import numpy as np
from _common import loans, split, start

o = start()
x, y = loans(o.rng)
if not o.healthy:
    y = y[o.rng.permutation(len(y))]
xt, yt, xv, yv = split(x, y)
model = lightgbm.LGBMClassifier(
    n_estimators=o.rounds // 2, num_leaves=7, learning_rate=0.05, n_jobs=1, verbose=-1
)
model.fit(xt, np.asarray(yt), eval_X=(xt, xv), eval_y=(yt, yv))
