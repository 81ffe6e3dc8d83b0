"""What agents and registries read: `server.json`, the mark in the README, and the skill."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any, get_args

import click
import pytest
from tcready import cli
from tcready.schema.proof import Counterexample, FixChange, FixResult, ProofCode

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = pytest.importorskip("tomli")

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
ENTRY = json.loads((ROOT / "server.json").read_text("utf-8"))
SKILL = ROOT / "skills" / "tcready" / "SKILL.md"


def words(arguments: list[dict[str, Any]], given: dict[str, str]) -> list[str]:
    """The command line of arguments, as a client of the registry makes it; `given` are those that a user fills in."""
    found: list[str] = []
    for argument in arguments:
        value = argument.get("value", given.get(argument.get("name", "")))
        if value is None:
            assert not argument.get("isRequired"), argument
            continue
        found += [argument["name"], value] if argument["type"] == "named" else [value]
    return found


def test_the_entry_for_the_registry_agrees_with_the_package() -> None:
    (package,) = ENTRY["packages"]
    assert ENTRY["version"] == package["version"] == PROJECT["version"]
    assert (package["registryType"], package["identifier"]) == ("pypi", PROJECT["name"])
    assert package["transport"] == {"type": "stdio"}
    assert re.fullmatch(r"io\.github\.[A-Za-z0-9-]+/tcready", ENTRY["name"])
    assert len(ENTRY["description"]) <= 100  # the registry takes no more
    assert f"<!-- mcp-name: {ENTRY['name']} -->" in (ROOT / PROJECT["readme"]).read_text("utf-8").splitlines()
    assert words(package["runtimeArguments"], {}) == ["--with", *PROJECT["optional-dependencies"]["mcp"]]


def test_the_arguments_of_the_entry_start_the_server(tmp_path: Path) -> None:
    pytest.importorskip("mcp")
    from anyio.from_thread import start_blocking_portal
    from mcp import StdioServerParameters
    from mcp.client import Client

    (package,) = ENTRY["packages"]
    arguments = words(package["packageArguments"], {"--root": str(tmp_path), "--python": sys.executable})
    parameters = StdioServerParameters(command=sys.executable, args=["-m", "tcready", *arguments], cwd=tmp_path.parent)
    with start_blocking_portal() as portal:
        client = Client(parameters)
        with portal.wrap_async_context_manager(client):
            tools = portal.call(client.list_tools).tools
    assert {"check", "prove"} <= {tool.name for tool in tools}


def test_the_skill_has_the_form_that_agents_read() -> None:
    text = SKILL.read_text("utf-8")
    _, front, body = text.split("---\n", 2)
    fields = dict(line.split(": ", 1) for line in front.splitlines())
    assert fields.keys() == {"name", "description", "license", "compatibility"}
    assert fields["name"] == SKILL.parent.name
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", fields["name"])
    assert len(fields["description"]) <= 1024
    assert len(fields["compatibility"]) <= 500
    assert fields["license"] == PROJECT["license"]
    assert not any(value[0] in "\"'[{>|&*!%#@`" or ": " in value for value in fields.values()), "not plain YAML"
    assert len(body.splitlines()) < 500


def test_the_skill_names_commands_and_fields_that_exist() -> None:
    text = SKILL.read_text("utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    commands = [shlex.split(line.split("   #")[0].split(" > ")[0]) for block in blocks for line in block.splitlines()]
    assert {command[1] for command in commands} == {"check", "explain", "rule", "fix", "prove"}
    for command in commands:
        assert command[0] == "tcready"
        found = cli.app.commands[command[1]]  # type: ignore[attr-defined]
        found.make_context(command[1], command[2:], parent=click.Context(cli.app, info_name="tcready"))
    table = text[text.index("| `code` |") : text.index("`condition` names inputs")]
    named = {
        code
        for row in table.splitlines()[2:]
        for code in re.findall(r"`(\w+)`", row.split("|")[1] if "|" in row else "")
    }
    assert named == {*get_args(ProofCode)}
    fields = {*FixChange.__dataclass_fields__, *FixResult.__dataclass_fields__, "holds", "settings_code"}
    for name in (
        "holds",
        "code",
        "reason",
        "counterexample",
        "condition",
        "patch",
        "called_before",
        "no_fix",
        "refused",
    ):
        assert f"`{name}`" in text
        assert name in fields
    assert "arguments" in Counterexample.__dataclass_fields__
