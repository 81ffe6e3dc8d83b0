"""The tools over the Model Context Protocol, on stdin and stdout. Only this file needs the package `mcp`."""

from __future__ import annotations

import functools
import gc
import os
import signal
import sys
import threading
import time
import traceback
from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.session import ServerSession
from mcp.server.stdio import stdio_server
from mcp.types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    ToolAnnotations,
)
from mcp.types import Tool as DescribedTool
from tcready import api
from tcready.integrations.mcp.answer import fit_answer
from tcready.integrations.mcp.arguments import Arguments, parse_arguments, schema_of
from tcready.integrations.mcp.tools import ListedPlace, McpTool, available_tools
from tcready.schema.enums import TcreadyError, visible
from tcready.schema.progress import Progress

INSTRUCTIONS = (
    "tcready checks whether a PyTorch model is ready for torch.compile. Begin with `check`, which reads "
    "the source and executes nothing. `rule` explains a code or the id of a finding. Propose a change, as "
    "`fix` gives it or as a diff of your own, put it to `prove`, and keep it only if the proof holds. "
    "`plan` finds out which parts to compile, `bench` whether it pays. `plan`, `prove`, `bench`, and "
    "`check` and `fix` if asked, execute the user's code. One call is worked on at a time."
)
LONGEST_ERROR = 800
"""Maximum number of characters of an error."""
OFTEN = 1.0
"""Minimum number of seconds between two notifications of progress."""
PATIENCE = 10.0
"""Seconds that a call has to end its processes after a signal."""
STACK = 64 * 2**20
"""Bytes of a thread's stack: reading is recursive, and on some systems threads get only half a megabyte."""


def serve(place: ListedPlace) -> None:
    """Answer until stdin ends. Meanwhile, anything else that this process prints to stdout goes to stderr."""
    gc.enable()  # the command line runs without, since it soon ends; this process stays
    threading.stack_size(STACK)
    anyio.run(_serve, place)


async def _serve(place: ListedPlace) -> None:
    tools = {tool.name: tool for tool in available_tools(place)}
    one_at_a_time = anyio.CapacityLimiter(1)
    ending = threading.Event()

    async def listed(_context: ServerRequestContext[Any], _params: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=[_described(tool, place) for tool in tools.values()])

    async def called(context: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult:
        tool = tools.get(params.name)
        if tool is None:
            return _wrong(f"there is no tool {params.name}: there are {', '.join(tools)}")
        try:
            arguments = parse_arguments(tool.arguments, tool.name, params.arguments or {})
        except TcreadyError as error:
            return _wrong(str(error))
        work = functools.partial(_answer, tool, arguments, place, _Telling(context.session, ending))
        # The thread ends by itself when the call is cancelled: `_Telling` raises in it.
        return await anyio.to_thread.run_sync(work, limiter=one_at_a_time)

    server: Server[Any] = Server(
        "tcready",
        version=api.version(),
        title="tcready",
        instructions=INSTRUCTIONS,
        on_list_tools=listed,
        on_call_tool=called,
    )
    async with anyio.create_task_group() as tasks, stdio_server() as (read, write):
        if sys.platform != "win32":
            tasks.start_soon(_end_on_signals, ending, one_at_a_time)
        await server.run(read, write, server.create_initialization_options())
        tasks.cancel_scope.cancel()


async def _end_on_signals(ending: threading.Event, one_at_a_time: anyio.CapacityLimiter) -> None:
    """End the process on a signal, once no call is in progress. The thread that waits for a line of stdin cannot be
    stopped."""
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
        async for number in signals:
            ending.set()
            with anyio.move_on_after(PATIENCE):
                await one_at_a_time.acquire()
            os._exit(128 + number)


def _described(tool: McpTool, place: ListedPlace) -> DescribedTool:
    return DescribedTool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=schema_of(tool.arguments),
        annotations=ToolAnnotations(
            # whoever executes code cannot promise what that does
            read_only_hint=tool.name == "rule" or not place.executes,
            destructive_hint=False,
            open_world_hint=False,
        ),
    )


def _answer(tool: McpTool, arguments: Arguments, place: ListedPlace, telling: _Telling) -> CallToolResult:
    """Answer a call in a separate thread."""
    try:
        answer = tool.answer(arguments, place, telling.progress)
    except TcreadyError as error:
        return _wrong(str(error))
    except OSError as error:  # of the machine, or of a path that is none
        return _wrong(f"{error.filename or tool.name}: {error.strerror or error}")
    except Exception as error:
        traceback.print_exc()
        return _wrong(f"tcready failed: {type(error).__name__}: {error} (its stderr has the traceback)")
    found = fit_answer(answer, arguments.max_characters)
    return CallToolResult(content=[TextContent(text=found.text)], structured_content=found.data)


def _wrong(message: str) -> CallToolResult:
    """Return an error as an answer of one line."""
    line = visible(" ".join(message.split()))
    short = line if len(line) <= LONGEST_ERROR else f"{line[:LONGEST_ERROR]} ..."
    return CallToolResult(content=[TextContent(text=short)], is_error=True)


class _Telling:
    """Reports the progress of a call to the client from the worker thread, and ends the work of a cancelled call."""

    def __init__(self, session: ServerSession, ending: threading.Event) -> None:
        self._session = session
        self._ending = ending
        self._began = time.monotonic()
        self._last = -OFTEN

    def progress(self, now: Progress) -> None:
        """Report progress. Raises the event loop's exception for a cancelled call, and TcreadyError if the server is
        ending."""
        anyio.from_thread.check_cancelled()
        if self._ending.is_set():
            raise TcreadyError("the server is ending")
        elapsed = time.monotonic() - self._began
        if now.news or elapsed - self._last >= OFTEN:
            self._last = elapsed
            anyio.from_thread.run(self._session.report_progress, elapsed, None, str(now))
