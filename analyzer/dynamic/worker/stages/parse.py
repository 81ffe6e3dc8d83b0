"""Check whether the target's source can be parsed. This does not load torch."""

from __future__ import annotations

import os
import sys

from tcready.dynamic.worker.core.context import Context
from tcready.dynamic.worker.core.journal import StageFailedError, one_line
from tcready.dynamic.worker.core.request import Work
from tcready.dynamic.worker.core.step import Step
from tcready.portable.target import Target
from tcready.schema.display_paths import source_folders


def target_path(work: Work) -> str | None:
    """Return the file of the target; None for a module that only its import can find."""
    target = Target.parse(work.target)
    if target.is_file:
        return os.path.join(work.root, target.place)
    relative = os.path.join(*target.place.split("."))
    for entry in [work.root, *source_folders(work.root), *work.python_path, *sys.path]:
        for tail in (f"{relative}.py", os.path.join(relative, "__init__.py")):
            if os.path.isfile(os.path.join(entry, tail)):
                return os.path.join(entry, tail)
    return None


def run(context: Context) -> None:
    work, journal = context.work, context.journal
    journal.begin("parse")
    path = target_path(work)
    if path is None:
        # Only its import can find such a module (an editable finder, a compiled module).
        journal.end("pass", "the source was not found before its import")
        return
    try:
        with open(path, "rb") as file:
            compile(file.read(), path, "exec", dont_inherit=True)
    except FileNotFoundError:
        journal.end("fail", f"{Target.parse(work.target).place}: no such file", "error")
    except (OSError, SyntaxError, ValueError) as error:
        journal.end("fail", one_line(error, work.root), "error")
    else:
        journal.end("pass")
        return
    raise StageFailedError


STEP = Step("parse", run)
