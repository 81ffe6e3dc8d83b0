"""`%load_ext tcready` and `%%tcready`: check a cell as it runs."""

from __future__ import annotations

import ast
from typing import Any

from tcready import api
from tcready.schema.enums import TcreadyError


def load(shell: Any) -> None:
    """Register `%%tcready` with an IPython shell."""

    def tcready(line: str, cell: str) -> Any:
        """%%tcready [model[, inputs][, option=value ...]]

        Run the cell, and read its code. With a model and inputs, check that model as `tcready.check` does, with the
        values that names have after the cell: `%%tcready net, x, plan=True`.
        """
        if not cell.lstrip().startswith("%%"):
            cell = f"# %%tcready {line}\n{cell}"  # line numbers are those in the whole cell
        shell.execution_count -= 1  # already that of the next cell
        try:
            ran = shell.run_cell(cell)
        finally:
            shell.execution_count += 1
        if not ran.success:
            return None  # the cell has shown why
        try:
            if line.strip():
                return _called(line, shell.user_ns)
            return api.check_cell(shell.transform_cell(cell))
        except TcreadyError as error:
            print(f"tcready: error: {error}")
            return None

    shell.register_magic_function(tcready, "cell", "tcready")


def _called(line: str, names: dict[str, Any]) -> Any:
    """Call `tcready.check` with the arguments after the magic. Raises TcreadyError for an invalid list of arguments."""
    try:
        call = ast.parse(f"check({line})", mode="eval")
    except SyntaxError:
        raise TcreadyError(f"%%tcready {line}: write a model and its inputs, as in %%tcready model, x") from None
    scope = {**names, "check": api.check_object}
    return eval(compile(call, "<%%tcready>", "eval"), scope)  # noqa: S307 - the user's own line
