"""Tools for assistants over the Model Context Protocol: `tcready mcp`.

`asked` checks the arguments of each tool with pydantic; `tools` does the work; `telling` renders reports, changes and
rules as answers, and `answer` cuts them to size. Only `server` needs the package `mcp`.
"""
