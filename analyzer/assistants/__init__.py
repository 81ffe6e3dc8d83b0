"""Tools for assistants over the Model Context Protocol: `tcready mcp`.

`asked` checks the arguments of each tool with pydantic; `tools` does the work; `telling` makes answers of reports,
changes and rules, and `answer` cuts them to size. Only `server` needs the package `mcp`.
"""
