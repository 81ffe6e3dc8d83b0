"""Tools for assistants over the Model Context Protocol: `tcready mcp`.

`arguments` checks the arguments of each tool with pydantic; `tools` does the work; `rendering` renders reports,
changes and rules as answers, and `answer` cuts them to size. Only `protocol_server` needs the package `mcp`.
"""
