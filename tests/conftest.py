"""For every test."""

from __future__ import annotations

import os

# Several workers share the cores: threads of one that wait for each other keep those of the other from running.
os.environ.setdefault("OMP_NUM_THREADS", "1")
