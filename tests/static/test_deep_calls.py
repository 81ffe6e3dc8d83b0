"""What reading asks of Python itself."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tcready.static.frontend.interpreter_settings import deep

FAULTS = """
import resource, sys
from tcready.static.frontend.interpreter_settings import deep
sys.setrecursionlimit(6000)

def leaf(a, b, c, d, e, f):
    return a

def up_and_down(levels):
    for _ in range(200):
        leaf(1, 2, 3, 4, 5, 6)
    return up_and_down(levels - 1) if levels else 0

def faults(function):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(3):
        function(400)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

print(faults(up_and_down), faults(deep(up_and_down)))
"""


@pytest.mark.skipif(
    sys.version_info < (3, 11) or sys.platform != "linux", reason="frames lie in chunks from Python 3.11 on"
)
def test_calls_that_go_up_and_down_ask_for_memory_once() -> None:
    """A page fault for each chunk that the system gives."""
    ran = subprocess.run([sys.executable, "-c", FAULTS], capture_output=True, text=True, check=True)
    plain, roomy = map(int, ran.stdout.split())
    assert roomy < 200 < 1000 < plain


def test_a_deep_call_is_the_call_of_the_function() -> None:
    @deep
    def added(first: int, *others: int, **named: int) -> int:
        """A sum."""
        return first + sum(others) + sum(named.values())

    assert added(1, 2, c=3) == 6
    assert (added.__name__, added.__doc__) == ("added", "A sum.")
    with pytest.raises(ZeroDivisionError):
        deep(lambda: 1 // 0)()
