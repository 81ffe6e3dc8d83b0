"""On the device `meta`, tensors have no values: choose placeholders, record their places, and report them."""

from __future__ import annotations

import contextlib
import linecache
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

import torch
from tcready.dynamic.worker.core.calling_line import calling_line
from tcready.dynamic.worker.core.frames import FrameNames
from tcready.dynamic.worker.core.journal import NO_VALUES, Journal
from tcready.dynamic.worker.torch_internals import dispatch, meta_device
from tcready.dynamic.worker.torch_internals.meta_device import Scalar, Taken

LIMIT = 256
"""The number of reads of one line in one call after which the answer changes, so that code that waits for a value
ends."""
LIMIT_IN_A_LOOP = 2
"""The same for the header of a `while`."""
TRIES = 8
"""The number of answers that are changed, one after the other, if an eager call raises with the first ones."""
_Line = tuple[str, int]
_Result = TypeVar("_Result")


@dataclass
class StandIns:
    """Placeholders for values in the calls of one run. Every call gets the same, so that calls can be compared."""

    names: FrameNames
    found: dict[tuple[_Line, str], str] = field(default_factory=dict)
    """Values that were used, by the line of user code and by what was read there."""
    answers: dict[_Line, bool] = field(default_factory=dict)
    """Booleans that were changed because the eager call raised with the default ones."""
    default_device: bool = False
    """True if tensors that the code makes without naming a device are made on `meta`, too."""
    reported: set[tuple[_Line, str]] = field(default_factory=set)
    _reads: Counter[_Line] = field(default_factory=Counter)
    _truths: dict[_Line, bool] = field(default_factory=dict)
    """Booleans that were used in this call; the last line read comes last."""

    @contextlib.contextmanager
    def taken(self) -> Iterator[None]:
        """Return the context for one call."""
        self._reads.clear()
        self._truths.clear()
        mode = meta_device.StandInMode(self._number, self._note)
        with meta_device.tensors_of_meta(), contextlib.ExitStack() as stack:
            if self.default_device:
                stack.enter_context(torch.device("meta"))
            stack.enter_context(mode)
            yield

    def first(self, call: Callable[[], _Result]) -> _Result:
        """Make the first eager call. If it raises, change the booleans that it read, starting with the last one.

        Answers that help are also used for later calls. If none helps, raise the error of the first call.
        """
        try:
            return call()
        except Exception as error:
            failure = error
        before = dict(self.answers), dict(self.found)
        for _ in range(TRIES):
            if not self._change():
                break
            try:
                return call()
            except Exception:  # noqa: S112  another truth value may help
                continue
        self.answers, self.found = before
        self.default_device = False
        raise failure

    def _change(self) -> bool:
        """Change one placeholder; return False if none is left."""
        last = next((line for line in reversed(self._truths) if line not in self.answers), None)
        if last is not None:
            self.answers[last] = not self._truths[last]
            self.found = {key: value for key, value in self.found.items() if key[0] != last}
            return True
        if self.default_device:
            return False
        self.default_device = True
        self.answers.clear()
        return True

    def _number(self, what: str, plain: Scalar) -> Scalar:
        line = self._line()
        self._reads[line] += 1
        text = linecache.getline(*line).lstrip()
        header = text.startswith("while ")
        usual: Scalar = plain
        if plain is False:  # a loop is entered
            usual = self.answers.get(line, header and not text.startswith("while not "))
        if plain is False:
            self._truths.pop(line, None)
            self._truths[line] = bool(usual)
        limit = LIMIT_IN_A_LOOP if header else LIMIT
        over = self._reads[line] > limit
        value = type(plain)(not usual) if over else usual
        if over or (line, what) not in self.found:
            later = f" {limit} times, then as {value}" if over else ""
            self.found[line, what] = f"{usual}{later}"
        return value

    def _note(self, taken: Taken) -> None:
        self.found[self._line(), taken.what] = taken.value

    def _line(self) -> _Line:
        place, _, _ = calling_line(dispatch.calling_frames())
        return place[:2]

    def place(self, line: _Line) -> str:
        return f"{self.names.path(line[0])}:{line[1]}"

    def report(self, journal: Journal) -> None:
        """Warn of placeholders that were not reported yet."""
        for (line, what), value in list(self.found.items()):
            if (line, what) not in self.reported:
                self.reported.add((line, what))
                journal.warn(
                    f"tensors on meta have no values: {what} at {self.place(line)} was assumed to be {value}; "
                    "code that depends on it was not checked with real values"
                )

    def unknown_from(self, line: _Line | None) -> str:
        """Return the message that nothing is known of the code from a failing line on."""
        where = f" from {self.place(line)} on" if line else ""
        return f"{NO_VALUES}; nothing was checked{where}"


def tried(device: str) -> contextlib.AbstractContextManager[None]:
    """Return the context for a call that only tries inputs: its placeholders are not reported."""
    return StandIns(FrameNames("", ())).taken() if on_meta(device) else contextlib.nullcontext()


def speaks_of_meta(error: BaseException) -> bool:
    """Return whether an error names the device; a link to torch's pages, `meta-pytorch.github.io`, does not count."""
    return re.search(r"\bmeta\b(?!-)", str(error), re.IGNORECASE) is not None


def on_meta(device: str) -> bool:
    """Return whether tensors of that device hold no values."""
    return device.partition(":")[0] == "meta"
