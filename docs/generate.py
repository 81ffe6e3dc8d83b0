"""Generate files from the code: pages of rules, breaks, commands and packages, the JSON Schemas, types of keywords.

`python docs/generate.py` updates the files. `--check` lists the stale files and exits with 1 if there are any.
"""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import architecture
import click
import pydantic
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema
from tcready import api, schema
from tcready.cli import app
from tcready.config import resolution
from tcready.fixes.rewriting.page_example import example
from tcready.pipeline import break_pages
from tcready.pipeline.break_pages import BreakPage
from tcready.portable.option_fields import Declared
from tcready.portable.options import RunOptions
from tcready.schema.codec import FLAT, all_names, json_name, omitted
from tcready.schema.enums import SCHEMA_VERSION
from tcready.schema.observation import Observation
from tcready.schema.proof import FixResult
from tcready.schema.report import Report
from tcready.static.diagnostics.rule import Rule
from tcready.static.diagnostics.rule_page import Sample
from tcready.static.library import torch_tables, torch_versions
from tcready.static.library.torch_versions import version_of

DOCS = Path(__file__).resolve().parent
REGISTRY = "https://meta-pytorch.github.io/compile-graph-break-site/gb/gb{number}.html"
FAMILIES = {
    "TCR1": "Control flow",
    "TCR2": "Data-dependent values and shapes",
    "TCR3": "Side effects and Python state",
    "TCR4": "Extensions and foreign code",
    "TCR5": "Recompilation and specialization",
    "TCR6": "Host synchronization, CUDA graphs and other costs",
}
NOTICE = "<!-- Written by docs/generate.py: edit {source} and run it again. -->\n\n"


def files() -> dict[Path, str]:
    """Every generated file with its text, by path below docs/."""
    rules = api.load_rules()
    pages = break_pages.load()
    schemas = {"report": _schema(Report), "observation": _schema(Observation), "fixes": _fixes_schema()}
    return {
        Path("pages/rules/index.md"): _index(rules),
        **{Path(f"pages/rules/{rule.code}.md"): _rule_page(rule) for rule in rules},
        Path("pages/breaks/index.md"): _breaks_index(rules, pages),
        **{Path(f"pages/breaks/{page.name}.md"): _break_page(page) for page in pages},
        Path("pages/cli.md"): _command_line(),
        **{Path(f"schema/{name}.schema.json"): _dump(value) for name, value in schemas.items()},
        Path("pages/schema_fields.md"): _fields(schemas),
        Path("pages/architecture.md"): _architecture(),
        **{Path(f"pages/{name}.md"): _with_results(name) for name in ("accuracy", "fix")},
        Path("../analyzer/config/keywords.py"): _keywords(),
    }


def _with_results(name: str) -> str:
    """Return a page with the tables of measurements as docs/results/accuracy.json has them; only its text is written
    by hand."""
    tables = json.loads((DOCS / "results" / "accuracy.json").read_text("utf-8"))

    def written(match: re.Match[str]) -> str:
        table = tables[match["name"]]
        rows = ["| " + " | ".join(row) + " |" for row in (table["columns"], *table["rows"])]
        rows.insert(1, "|" + "|".join(table["align"]) + "|")
        lines = (re.sub(r"\|  (?=\|)", "| ", row) for row in rows)
        return f"<!-- results: {match['name']} -->\n" + "\n".join(lines) + "\n"

    page = (DOCS / "pages" / f"{name}.md").read_text("utf-8")
    return re.sub(r"<!-- results: (?P<name>\w+) -->\n(\|.*\n)*", written, page)


def stale(expected: Mapping[Path, str]) -> list[str]:
    """The files that differ or are missing, and pages whose rule or break no longer exists."""
    wrong = [
        path.as_posix()
        for path, text in expected.items()
        if not (DOCS / path).is_file() or (DOCS / path).read_text("utf-8") != text
    ]
    made = (path for name in ("rules", "breaks") for path in (DOCS / "pages" / name).glob("*"))
    left_over = {path.relative_to(DOCS) for path in made} - expected.keys()
    return sorted(wrong + [path.as_posix() for path in left_over])


# rules


def _index(rules: tuple[Rule, ...]) -> str:
    text = NOTICE.format(source="the rules") + (
        "# Rules\n\n"
        f"{len(rules)} rules. `tcready rules` prints this list, and `tcready rule CODE` prints a page, offline. "
        "Codes of a family share a first digit: `--ignore TCR3` ignores one family, `--select TCR1,TCR2` selects two. "
        "The examples assume `import torch`, `from torch import nn` and `import torch.nn.functional as F`.\n"
    )
    for prefix, title in FAMILIES.items():
        rows = [rule for rule in rules if rule.code.startswith(prefix)]
        if rows:
            text += f"\n## {title} ({prefix}xx)\n\n"
            text += "| rule | name | level | effect | what it finds |\n|---|---|---|---|---|\n"
            text += "".join(
                f"| [{r.code}]({r.code}.md) | `{r.name}` | {r.level} | {_words(r.effect)} | {_cell(r.summary)} |\n"
                for r in rows
            )
    names = "\n".join(rule.code for rule in rules)
    return f"{text}\n```{{toctree}}\n:hidden:\n\n{names}\n```\n"


def _rule_page(rule: Rule) -> str:
    ids = ", ".join(f"[{gb}]({REGISTRY.format(number=gb[2:])})" for gb in rule.gb_ids)
    claim = [
        ("code", f"`{rule.code}`"),
        ("name", f"`{rule.name}`"),
        ("level", rule.level),
        ("effect", _words(rule.effect)),
        ("breaks in PyTorch's registry", ids or "none: the graph does not break"),
        ("suggests a diff", "yes, if it can rewrite the surrounding code" if rule.rewriters else "no"),
    ]
    source = f"{rule.module.removeprefix('tcready.').replace('.', '/')}.md or .py"
    return (
        NOTICE.format(source=source)
        + f"# {rule.code}: {rule.name}\n\n"
        + re.sub(r"^(## .*)\n(?=\S)", r"\1\n\n", rule.page.strip(), flags=re.M)
        + "\n\n## Example\n\nBefore (the rule reports the marked lines):\n\n"
        + _code(rule.shown(rule.bad[0]))
        + "\nAfter:\n\n"
        + _code(rule.shown(rule.good[0]))
        + _rewrite(rule)
        + "\n## Properties\n\n| | |\n|---|---|\n"
        + "".join(f"| {name} | {value} |\n" for name, value in claim)
        + f"\n{_proof(rule)}\n\n"
        + "## Silencing it\n\n"
        + f"For one finding, add `# noqa: {rule.code}` to the end of its line. "
        + f"For all findings, use `--ignore {rule.code}`. See [Silencing findings](../silencing.md).\n"
    )


def _rewrite(rule: Rule) -> str:
    """The section on the rule's rewrite, with an example."""
    made = example(rule)
    if made is not None:
        how = " ".join(f"{each}." for each in made.how)
        of = "" if made.before == rule.before else f"Before:\n\n{_code(made.before)}\nAfter:\n\n"
        return f"\n## Rewrite\n\n{how}\n\n{of}{_code(made.after)}"
    return f"\n## Rewrite\n\n{rule.no_rewrite}\n" if rule.no_rewrite else ""


def _pinned_torch() -> tuple[int, int]:
    """The version of torch that runs the samples."""
    pins = (DOCS.parent / "constraints.txt").read_text("utf-8").splitlines()
    return next(version_of(pin.removeprefix("torch==")) for pin in pins if pin.startswith("torch=="))


def _proof(rule: Rule) -> str:
    newest = ".".join(map(str, _pinned_torch()))
    bad, good = _many(rule.bad, "sample"), _many(rule.good, "sample")
    if rule.unproved:
        return (
            f"Not verified by a run: {rule.unproved}. Tests verify that the rule reports {bad} with the hazard, "
            f"and does not report {good} without it."
        )
    others = sorted({sample.torch for sample in rule.bad if sample.torch is not None})
    here = tuple(sample for sample in rule.bad if sample.torch is None)
    proof = [
        f"Verified by the test suite (torch {newest}): Dynamo shows the effect at the marked lines of "
        f"{_many(here, 'sample')}. It captures {good} without the hazard as a whole, with the results of eager mode."
    ] * bool(here)
    for other in others:
        recorded = _many(tuple(sample for sample in rule.bad if sample.torch == other), "sample")
        proof.append(
            f"A recorded run of torch {'.'.join(map(str, other))} shows the effect at the marked lines of {recorded}."
        )
    return " ".join(proof) + _by_version(rule)


def _by_version(rule: Rule) -> str:
    """The versions of torch for which claims hold, if some do not hold for all versions."""
    forms = torch_tables.claims_by_version().get(rule.code, {})
    if not forms:
        return ""
    known = [".".join(map(str, version)) for version in torch_versions.with_tables()]
    rows = "".join(
        f"| {_cell(form) or 'everything else'} | {_ranges(holds, known)} |\n" for form, holds in forms.items()
    )
    return (
        "\n\nNot all claims hold for all versions of torch that were run "
        f"({known[0]} to {known[-1]}):\n\n| finding | torch |\n|---|---|\n{rows}".rstrip()
    )


def _ranges(holds: Sequence[str], known: list[str]) -> str:
    """Versions as ranges: `2.11 to 2.13, 2.15`."""
    found: list[list[str]] = []
    for number, version in enumerate(known):
        if version not in holds:
            continue
        if found and number and known[number - 1] == found[-1][-1]:
            found[-1].append(version)
        else:
            found.append([version])
    return ", ".join(each[0] if len(each) == 1 else f"{each[0]} to {each[-1]}" for each in found)


def _many(samples: tuple[Sample, ...], word: str) -> str:
    return f"{len(samples)} {word}{'' if len(samples) == 1 else 's'}"


def _code(text: str) -> str:
    return f"```python\n{text}\n```\n"


def _words(name: str) -> str:
    return name.replace("_", " ")


def _cell(text: str) -> str:
    """Escape `text` for a table: a bar would end the cell, a line break the table."""
    return " ".join(text.replace("|", "\\|").split())


# types of breaks


def _registry() -> dict[str, str]:
    """The name of every type of break by its id, as in the newest torch that has it."""
    return {
        gb_id: name
        for version in torch_versions.with_tables()
        for gb_id, name in torch_tables.load(version).registry.items()
    }


def _breaks_index(rules: tuple[Rule, ...], pages: tuple[BreakPage, ...]) -> str:
    names = _registry()
    page_of = {gb_id: page.name for page in pages for gb_id in page.gb_ids}
    known = [".".join(map(str, version)) for version in torch_versions.with_tables()]
    examples = sum(each.bad is not None for page in pages for each in page.breaks)
    text = NOTICE.format(source="rules/break_pages") + (
        "# Types of graph breaks\n\n"
        "If a run shows a break that no rule predicts, the break still has a type: an id in PyTorch's registry. This "
        f"page lists all {len(names)} types of torch {', '.join(known)}. For each type, it links the page that says why "
        "the break happens and what to do, and the rules that predict it. `tcready rule GB0170` prints the page of one "
        f"type.\n\n{examples} types have an example that breaks, and a version of it that does not. The test suite "
        "verifies that Dynamo breaks on the example with this id. For the other types, the page says why there is no "
        "example.\n\n| page | summary |\n|---|---|\n"
    )
    text += "".join(f"| [{page.name}]({page.name}.md) | {_cell(page.summary)} |\n" for page in pages)
    text += "\n## By id\n\n| type | name | page | rules |\n|---|---|---|---|\n"
    for gb_id in sorted(names):
        found = page_of.get(gb_id)
        page = f"[{found}]({found}.md)" if found else ""
        claims = ", ".join(f"[{rule.code}](../rules/{rule.code}.md)" for rule in rules if gb_id in rule.gb_ids)
        link = f"[{gb_id}]({REGISTRY.format(number=gb_id[2:])})"
        text += f"| {link} | {_cell(_plain(names[gb_id]))} | {page} | {claims} |\n"
    listed = "\n".join(page.name for page in pages)
    return f"{text}\n```{{toctree}}\n:hidden:\n\n{listed}\n```\n"


def _break_page(page: BreakPage) -> str:
    names = _registry()
    text = (
        NOTICE.format(source=f"rules/break_pages/{page.name}.md")
        + f"# {page.name}\n\n"
        + re.sub(r"^(## .*)\n(?=\S)", r"\1\n\n", page.page.strip(), flags=re.M)
        + "\n"
    )
    for each in page.breaks:
        text += f"\n## {each.gb_id}: {_plain(names[each.gb_id])}\n\n{f'{each.what} {each.remedy}'.strip()}\n\n"
        text += page.example(each.gb_id, lambda code: _code(code).rstrip("\n")) + "\n"
    if page.unshown:
        text += "\n## Without an example\n"
    for other in page.unshown:
        text += f"\n{other.reason}\n\n| type | name |\n|---|---|\n"
        text += "".join(f"| {gb_id} | {_cell(_plain(names[gb_id]))} |\n" for gb_id in other.gb_ids)
    return text


def _plain(name: str) -> str:
    """A type's name without what Markdown reads as markup: some have a single backtick."""
    return re.sub(r"([\\*_<>\[\]])", r"\\\1", name.replace("`", ""))


# the command line


def _command_line() -> str:
    return (
        NOTICE.format(source="analyzer/cli")
        + "# Command line\n\nThis page shows the output of `tcready COMMAND --help`. "
        + "[Exit codes](exits.md) explains the exit codes.\n"
        + "".join(_command(app, "tcready", None))
    )


def _command(command: click.Command, name: str, parent: click.Context | None) -> Iterator[str]:
    context = click.Context(command, info_name=name, parent=parent, **command.context_settings)
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    yield f"\n## {context.command_path}\n\n```text\n{usage}\n```\n\n{_help(command)}\n"
    rows = [record for option in command.get_params(context) if (record := option.get_help_record(context))]
    if rows:
        yield "\n| option | description |\n|---|---|\n"
        spaced = ((option.replace("|", " | "), text) for option, text in rows if text)  # may break at a space
        yield from (f"| `{_cell(option)}` | {_cell(text)} |\n" for option, text in spaced)
    if isinstance(command, click.Group):
        for sub in command.list_commands(context):
            child = command.get_command(context, sub)
            if child is not None and not child.hidden:
                yield from _command(child, sub, context)


def _help(command: click.Command) -> str:
    paragraphs = (command.help or "").replace("\b", "").strip().split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


# the source


def _architecture() -> str:
    return (
        NOTICE.format(source="the docstrings of the packages")
        + "# Architecture\n\n[How a run flows](how_it_works.md) describes the steps of a check. "
        + "The folders `analyzer/`, `rules/` and `reports/` are one import package: "
        + "`tcready`, `tcready.rules`, `tcready.reports`.\n\n"
        + architecture.describe()
    )


# what `check` and `observe` take by keyword

KEYWORDS = '''"""The keywords of `tcready.check` and `tcready.observe`, for type checkers and editors.

Written by docs/generate.py: edit analyzer/portable/options.py and run it again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict

from tcready.schema.enums import Engine, Mode, ModeAsked, Parallelism
'''
PYTHON_TYPES = {
    "list": "Sequence[str]",
    "globs": "Mapping[str, Sequence[str]]",
    "weights": "Mapping[str, float]",
    "command": "str | Sequence[str]",
    "version": "str | tuple[int, int]",
}
"""What a call may give for an option of a kind, where that is not what the field holds."""


def _keywords() -> str:
    check, observe = (
        {keyword: _given_type(each) for keyword, each in resolution.taken(values).items()}
        for values in (resolution.VALUES, (RunOptions,))
    )
    both = {keyword: kind for keyword, kind in check.items() if observe.get(keyword) == kind}
    return (
        KEYWORDS
        + _typed_keywords("RunKeywords", "TypedDict", both)
        + _typed_keywords("CheckKeywords", "RunKeywords", {k: kind for k, kind in check.items() if k not in both})
        + _typed_keywords("ObserveKeywords", "RunKeywords", {k: kind for k, kind in observe.items() if k not in both})
    )


def _typed_keywords(name: str, base: str, types: Mapping[str, str]) -> str:
    lines = [f"    {keyword}: {kind}\n" for keyword, kind in types.items()]
    return f"\n\nclass {name}({base}, total=False):\n{''.join(lines)}"


def _given_type(each: Declared) -> str:
    kind = PYTHON_TYPES.get(each.option.kind, each.type)
    return kind if kind.endswith("None") else f"{kind} | None"


# the schema


class _Generator(GenerateJsonSchema):
    """Without a title for each field, which would say its name again."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def _schema(kind: type[Any]) -> JsonSchemaValue:
    names = all_names()
    kinds = [value for value in names.values() if isinstance(value, type)]
    for value in kinds:
        if value.__module__.startswith(schema.__name__):  # where pydantic looks for the names in its fields
            vars(sys.modules[value.__module__]).update(names)
        if hasattr(value, "of_json"):
            value.__get_pydantic_core_schema__ = lambda *_: core_schema.str_schema()
        elif dataclasses.is_dataclass(value):
            keys = {field.name: json_name(field) for field in dataclasses.fields(value)}
            value.__pydantic_config__ = pydantic.ConfigDict(  # type: ignore[attr-defined]
                use_attribute_docstrings=True, alias_generator=keys.__getitem__
            )
    made = pydantic.TypeAdapter(kind).json_schema(mode="serialization", schema_generator=_Generator)
    for value in kinds:
        _flatten(value, made["$defs"])
    known = json.dumps(made)
    made["$defs"] = {name: part for name, part in made["$defs"].items() if f'"#/$defs/{name}"' in known}
    made["properties"]["schema_version"] = {
        "const": SCHEMA_VERSION,
        "description": "A changed field requires a new version. A new field, which readers ignore, does not.",
    }
    made["required"].append("schema_version")
    made["title"] = f"tcready {kind.__name__.lower()}, version {SCHEMA_VERSION}"
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made}


def _fixes_schema() -> JsonSchemaValue:
    """The schema of the JSON that `tcready fix` writes: its result, and how to apply it."""
    made = _schema(FixResult)
    made["title"] = f"tcready fixes, version {SCHEMA_VERSION}"
    text = {"type": "string"}
    more: dict[str, JsonSchemaValue] = {
        "settings": {
            "type": "object",
            "additionalProperties": text,
            "description": "Environment variables for the settings of all changes, if a setting has one.",
        },
        "settings_code": {
            "type": "array",
            "items": text,
            "description": "Lines of code for the settings of all changes, to run before the model is compiled.",
        },
        "called_before": {
            "type": "boolean",
            "description": "Whether to call the model once in eager mode before it is compiled.",
        },
    }
    made["properties"] |= more
    made["required"] += more
    return made


def _flatten(kind: type[Any], parts: dict[str, Any]) -> None:
    """Puts the fields of the value in a flat field among those of its owner, as the codec writes them."""
    for field in dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ():
        own = parts.get(kind.__name__)
        if json_name(field) != FLAT or own is None:
            continue
        inner = parts[own["properties"].pop(FLAT)["$ref"].rpartition("/")[2]]
        left_out = omitted(field)
        taken = {key: value for key, value in inner["properties"].items() if key not in left_out}
        own["properties"] = taken | own["properties"]
        own["required"] = [key for key in (*inner["required"], *own["required"]) if key != FLAT]


def _dump(value: JsonSchemaValue) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _fields(schemas: Mapping[str, JsonSchemaValue]) -> str:
    text = NOTICE.format(source="analyzer/schema") + (
        "# Fields of the JSON\n\n"
        "Every value of a report, of an observation and of proposed changes, as in the JSON Schemas. A field with a "
        "default may be missing in a report of an older tcready. All other fields are always present. If a description "
        "says None, JSON has `null`.\n"
    )
    parts = {}
    for made in schemas.values():
        parts[made["title"]] = made
        parts.update(made["$defs"])
    tops = [made["title"] for made in schemas.values()]
    for name in [*tops, *sorted(parts.keys() - set(tops))]:
        made = parts[name]
        text += f"\n## {_heading(name)}\n\n"
        if made.get("description"):
            text += f"{made['description']}\n\n"
        text += "| field | type | default | description |\n|---|---|---|---|\n"
        for field, value in made["properties"].items():
            default = f"`{json.dumps(value['default'])}`" if "default" in value else ""
            text += f"| `{field}` | {_cell(_type(value))} | {default} | {_cell(value.get('description', ''))} |\n"
    return text


def _heading(name: str) -> str:
    return {"tcready report": "Report", "tcready observation": "Observation", "tcready fixes": "Fixes"}.get(
        name.partition(",")[0], name
    )


def _type(value: Mapping[str, Any]) -> str:
    if "$ref" in value:
        name = value["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in value:
        return " or ".join(_type(each) for each in value["anyOf"])
    if "enum" in value:
        return ", ".join(f"`{each}`" for each in value["enum"])
    if "const" in value:
        return f"`{json.dumps(value['const'])}`"
    if value.get("type") == "array":
        if "prefixItems" in value:
            return "(" + ", ".join(_type(each) for each in value["prefixItems"]) + ")"
        return f"list of {_type(value['items'])}"
    return str(value.get("type", "any"))


def main() -> int:
    expected = files()
    wrong = stale(expected)
    if "--check" in sys.argv[1:]:
        for path in wrong:
            print(f"docs/{path} is stale: run `python docs/generate.py`", file=sys.stderr)
        return 1 if wrong else 0
    for name in wrong:
        path = DOCS / name
        if Path(name) in expected:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(expected[Path(name)], encoding="utf-8")
        else:
            path.unlink()
    print(f"{len(wrong)} of {len(expected)} files updated")
    return 0


if __name__ == "__main__":
    sys.exit(main())
