"""What tests count in parts of a table: workers of a cluster import this file alone."""

import os
import signal
from collections import Counter
from pathlib import Path

import numpy as np


def length_of_part(number, part):
    return Counter({number: len(part)})


def kill_once(number, rows, path):
    """End the worker that gets part 1 first, as if its machine was lost."""
    marker = Path(path, "killed")
    if number == 1 and not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return np.array([number * len(rows)])
