"""Make suggestions in a separate process, which loads libcst while this one reads.

Loading libcst and rewriting the code around a few suspects takes as long as reading a file of 1,500 lines. On two
processors both are done at once. A request and its answer are one line of JSON each.
"""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING

from tcready.schema.edit import Edit
from tcready.static.diagnostics.rule import FixCandidate, Rule

if TYPE_CHECKING:
    from tcready.static.diagnostics.diagnose import Suggest

ANSWER = b"tcready answers: "
CHILD = "import sys; sys.path[:] = {path!r}; from {module} import answer; answer({load!r}, {likely!r})"
"""The program of the process. It finds modules where this process does, not in the working folder."""


@contextlib.contextmanager
def suggest_in_process(load: Callable[[], tuple[Rule, ...]], likely: Path | None) -> Iterator[Suggest]:
    """Yield a replacement for `suggest.suggest` that runs in a process which ends with the block; if that does not
    start, or ends early, it runs here. `load` returns the rules, and is a function of a module; `likely` is a file
    that will probably be requested, if known."""
    where = load.__module__, load.__qualname__
    program = CHILD.format(path=sys.path, module=__name__, load=where, likely=str(likely or ""))
    try:
        child = subprocess.Popen(  # noqa: S603  this very interpreter
            [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
    except (OSError, TypeError, ValueError):
        # the path of modules is too long for a command, or no interpreter is known
        yield _here
        return
    try:
        yield _Helper(child).suggest
    finally:
        child.kill()
        with contextlib.suppress(OSError):  # what it was not sent any more
            child.communicate()


class _Helper:
    """The process, which handles one request at a time."""

    def __init__(self, child: subprocess.Popen[bytes]) -> None:
        self._child = child

    def suggest(self, suspects: Sequence[FixCandidate]) -> Iterable[tuple[Edit, ...]]:
        """Send the request at once, and wait for the answer when the first edits are read."""
        assert self._child.stdin is not None
        texts = {str(each.source.path): each.source.text for each in suspects}
        places = [(each.path, str(each.source.path), each.rule.code, each.span) for each in suspects]
        try:
            self._child.stdin.write(json.dumps([texts, places]).encode() + b"\n")
            self._child.stdin.flush()
        except OSError:
            return _here(suspects)
        return self._answer(suspects)

    def _answer(self, suspects: Sequence[FixCandidate]) -> Iterator[tuple[Edit, ...]]:
        assert self._child.stdout is not None
        lines = iter(self._child.stdout.readline, b"")  # what runs when Python starts may print, too
        line = next((line for line in lines if line.startswith(ANSWER)), b"")
        if line.endswith(b"\n"):
            found = json.loads(line.removeprefix(ANSWER))
            yield from (tuple(Edit(*each) for each in edits) for edits in found)
        else:  # it has ended
            yield from _here(suspects)


def _here(suspects: Sequence[FixCandidate]) -> Iterable[tuple[Edit, ...]]:
    from tcready.fixes.rewriting.suggestions import suggest

    return suggest(suspects)


def answer(load: tuple[str, str], likely: str) -> None:
    """Answer requests in the process until there are no more. `load` is the module and the name of the function that
    returns the rules; `likely` is the path of a file to read in advance. Interrupts are left to the parent, which
    ends the process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    from importlib import import_module

    from tcready.fixes.rewriting.suggestions import suggest
    from tcready.static.diagnostics.cst_view import torch_in
    from tcready.static.frontend import source
    from tcready.static.frontend.interpreter_settings import SHARED

    module, name = load
    rules = {rule.code: rule for rule in getattr(import_module(module), name)()}
    known: dict[str, source.Source] = {}
    with SHARED.reading():
        if likely:
            with contextlib.suppress(source.UnreadableError):
                known[likely] = source.read(Path(likely))
                known[likely].derive(torch_in)  # goes through the whole tree, and that is kept
        for line in sys.stdin.buffer:
            texts, places = json.loads(line)
            for path, text in texts.items():
                if path not in known or known[path].text != text:
                    known[path] = source.of_text(Path(path), text)
            found = suggest(
                [FixCandidate(shown, rules[code], known[path], tuple(span)) for shown, path, code, span in places]
            )
            edits = json.dumps([list(map(astuple, each)) for each in found])
            sys.stdout.buffer.write(ANSWER + edits.encode() + b"\n")
            sys.stdout.buffer.flush()
