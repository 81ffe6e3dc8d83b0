"""Convert torch's structured traces (`TORCH_TRACE`) to what a run would have shown.

`files` reads them line by line, `process` collects what one process compiled, `places` finds its files here, `advice`
suggests what might stop recompilations, and `observe` makes Observations of all that. Nothing is executed or written.
"""

from tcready.traces.observations_of_trace import Traced, read

__all__ = ["Traced", "read"]
