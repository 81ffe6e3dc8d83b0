"""What the source predicts and what the runs showed, put together into one Report. Pure.

Each finding is judged against each observation, a break that nobody predicted becomes a finding of its own,
and every target gets its verdict and its regions.
"""

from tcready.merge.combine import combined
from tcready.merge.findings import STRENGTH
from tcready.merge.report import merge
from tcready.merge.verdict import exit_code, failures

__all__ = ["STRENGTH", "combined", "exit_code", "failures", "merge"]
