"""Convert torch's structured traces (`TORCH_TRACE`) to what a run would have shown.

`trace_files` reads them line by line, `process_trace` collects what one process compiled, `path_mapping` finds its
files here, `advice` suggests what might stop recompilations, `rank_differences` compares the ranks, `kernels` finds the
lines of kernels, and `observations_of_trace` makes Observations of all that. `timeline` makes a timeline of the steps.
Nothing is executed or written.
"""

from tcready.traces.observations_of_trace import Traced, read

__all__ = ["Traced", "read"]
