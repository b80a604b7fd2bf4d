"""Run a training script whose every step is evaluated immediately, however long that takes."""

import runpy
import sys
from pathlib import Path

from mothtrap.monitor import monitor

monitor.COST_RATIO = 1e9
del sys.argv[0]
sys.path.insert(0, str(Path(sys.argv[0]).parent))
runpy.run_path(sys.argv[0], run_name="__main__")
