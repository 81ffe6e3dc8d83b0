"""How often does a bench call eager code faster than itself? `tcready bench` again and again, and what its A/A said.

    python benchmarks/speed_noise.py fixtures/models/NAME.py [--times 20] [--budget 60] [--quick]

With --quick, each bench times one process. The script compares every other block of eager calls with the block before
it, and prints the verdicts: over all processes, and (likely) in each process. A gain or a regression is wrong.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter

from tcready import api
from tcready.bench.figures import likely, within
from tcready.portable.options import BenchOptions
from tcready.schema.enums import EAGER


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target")
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--budget", type=float, default=60.0)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    found: Counter[str] = Counter()
    for number in range(1, options.times + 1):
        report = api.bench(options.target, wanted=BenchOptions(quick=options.quick, bench_budget=options.budget))
        bench = next(each.observation.bench for each in report.targets if each.observation.bench)
        if not bench.cases:
            found["not run"] += 1
            print(f"{number}: {bench.reason}", flush=True)
            continue
        noise = bench.noise
        found[noise.verdict if noise is not None else "not measured"] += 1
        blocks = next(arm.blocks for arm in bench.cases[-1].arms if arm.arm == EAGER)
        halves = [row[::2] for row in blocks], [row[1::2] for row in blocks]
        found[likely(within(*halves))] += 1
        bounds = f"{noise.ratio.low:.3f} to {noise.ratio.high:.3f}" if noise is not None else "-"
        print(f"{number}: {bounds} in {bench.processes} processes; {dict(found)}", flush=True)
    wrong = ("real_gain", "regression")
    likely_ones = found["likely_gain"] + found["likely_regression"]
    return 1 if any(found[each] for each in wrong) or likely_ones > 1 else 0


if __name__ == "__main__":
    sys.exit(main())
