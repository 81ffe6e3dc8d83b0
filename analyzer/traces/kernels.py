"""Find the lines of the user's code that each kernel of a job computes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tcready.portable.events.to_schema import RawFrame
from tcready.schema.code_line import Frame
from tcready.schema.run import TracedKernel
from tcready.traces.path_mapping import TraceNames
from tcready.traces.process_trace import Compilation, Process


def find(found: Sequence[tuple[Process, TraceNames, list[Compilation]]]) -> tuple[TracedKernel, ...]:
    """Return the kernels of one target, in the order in which they were made.

    The tracebacks that torch records of a kernel name its lines; without them, the nodes with the operations that it
    computes do. Two kernels of one name with different lines are different ones.
    """
    counts: dict[tuple[str, tuple[Frame, ...]], int] = {}
    for _, names, some in found:
        for each in some:
            if each.kernels:
                by_kernel = {kernel: _lines(stacks, names) for kernel, stacks in each.kernels.items()}
            else:
                by_kernel = {
                    kernel: _lines(((each.nodes[node],) for node in nodes if node in each.nodes), names)
                    for kernel, nodes in each.kernel_nodes.items()
                }
            for kernel, lines in by_kernel.items():
                counts[kernel, lines] = counts.get((kernel, lines), 0) + 1
    return tuple(TracedKernel(kernel, lines, count) for (kernel, lines), count in counts.items())


def _lines(stacks: Iterable[Sequence[RawFrame]], names: TraceNames) -> tuple[Frame, ...]:
    """Return the innermost line of the user's code in each traceback, each line once."""
    inner = (next((frame for frame in reversed(stack) if names.is_user(frame[0])), None) for stack in stacks)
    return tuple(dict.fromkeys(names.frame(*frame) for frame in inner if frame is not None))
