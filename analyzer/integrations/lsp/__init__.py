"""The language server: `tcready lsp`.

`language_server` speaks the protocol and decides when to read; `open_files` reads the open files of a project as
`tcready check` would, including unsaved text; `last_run` has the result of the last run, and `line_states` what it
shows of each line; `hover_text` and `protocol_values` render them. Only `language_server` and `protocol_values` need
pygls and lsprotocol. Nothing of a project is imported or executed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tcready.schema.enums import TcreadyError

if TYPE_CHECKING:
    from tcready.integrations.lsp.open_files import SettingsAt

EXTRA = "the language server needs pygls: pip install 'tcready[lsp]'"


def serve(settings_at: SettingsAt) -> None:
    """Serve one editor over stdin and stdout until it leaves.

    `settings_at` returns the settings of the project in a folder. Raises TcreadyError if pygls is not installed.
    """
    try:
        import pygls.lsp.server  # noqa: F401 - whether the extra is there
    except ImportError:
        raise TcreadyError(EXTRA) from None
    from tcready.integrations.lsp import language_server

    language_server.serve(settings_at)
