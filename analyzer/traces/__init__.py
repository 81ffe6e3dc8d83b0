"""Torch's structured traces (`TORCH_TRACE`), read into what a run would have shown.

`files` finds and reads them line by line, `process` collects what one process compiled, `places` says where its files
stand here, `advice` what might end recompilations, `observe` makes Observations of all that. Nothing is
executed, and nothing is written.
"""

from tcready.traces.observe import Traced, read

__all__ = ["Traced", "read"]
