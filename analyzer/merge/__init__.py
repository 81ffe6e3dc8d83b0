"""Put findings and observations together into one Report. No I/O.

Each finding is compared with each observation and gets its status and level. A break that no rule predicted becomes a
finding of its own. Every target gets its verdict and its regions. `combine` merges what several reports were made
from.
"""

from tcready.merge.combine import combine_reports
from tcready.merge.findings import STRENGTH
from tcready.merge.verdict import exit_code, failures
from tcready.merge.whole_report import merge

__all__ = ["STRENGTH", "combine_reports", "exit_code", "failures", "merge"]
