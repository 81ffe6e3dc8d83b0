"""The documentation: fresh where it is made from code, built without a warning, and true in what can be tried."""

from __future__ import annotations

import ast
import functools
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import click
import pytest
from jsonschema import Draft202012Validator
from tcready import api, cli
from tcready.dynamic.standalone import _parser
from tcready.rules import load

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = pytest.importorskip("tomli")

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted((DOCS / "pages").rglob("*.md"))
WRITTEN = [page for page in PAGES if page.parent.name != "rules" and page.name not in ("cli.md", "schema_fields.md")]
PROSE = [ROOT / "README.md", *WRITTEN]
ABOUT_SCRIPTS = {DOCS / "pages" / name for name in ("measuring.md", "releasing.md", "testing.md")}
"""Pages for maintainers, which name the flags of scripts and of git."""


def ids(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def sphinx(source: Path, out: Path, *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sphinx", "-q", "-E", "-W", "--keep-going", "-n", "-b", "dummy"]
    return subprocess.run(
        [*command, "-c", str(DOCS), *more, str(source), str(out)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


# made from code


@pytest.mark.slow
def test_what_is_generated_is_fresh() -> None:
    done = subprocess.run(
        [sys.executable, str(DOCS / "generate.py"), "--check"], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr


def test_the_architecture_shows_imports_and_docstrings() -> None:
    text = (DOCS / "pages" / "architecture.md").read_text("utf-8")
    drawing = text.partition("```text\n")[2].partition("```")[0]
    rows = {name: number for number, row in enumerate(drawing.splitlines()) for name in row.split()}
    table = text.partition("| component | imports |")[2].partition("\n## ")[0]
    imports = dict(re.findall(r"^\| `([\w.]+)` \| (.*) \|$", table, re.M))
    assert "`reports`" in imports["api"], "imports in functions count"
    for name, others in imports.items():
        assert all(rows[name] < rows[other] for other in re.findall(r"`([\w.]+)`", others)), name
    package = ast.get_docstring(ast.parse((ROOT / "analyzer" / "merge" / "__init__.py").read_bytes()))
    assert f"## `analyzer/merge/`\n\n{package}\n" in text


def commands(command: click.Command) -> Iterator[click.Command]:
    yield command
    if isinstance(command, click.Group):
        for child in command.commands.values():
            yield from commands(child)


FLAGS = {
    flag
    for command in commands(cli.app)
    for parameter in command.params
    if isinstance(parameter, click.Option) and not parameter.hidden
    for flag in (*parameter.opts, *parameter.secondary_opts)
}
WORKER_FLAGS = {flag for action in _parser()._actions for flag in action.option_strings}


def test_the_reference_names_every_flag() -> None:
    text = (DOCS / "pages" / "cli.md").read_text("utf-8")
    assert {flag for flag in FLAGS if not re.search(rf"`[^`]*(?<![\w-]){flag}(?![\w-])[^`]*`", text)} == set()


# what is written


@pytest.mark.parametrize("page", [page for page in PROSE if page not in ABOUT_SCRIPTS], ids=ids)
def test_every_flag_and_rule_that_is_named_exists(page: Path) -> None:
    text = page.read_text("utf-8")
    ours = " ".join(
        span
        for span in re.findall(r"`[^`\n]+`|^(?!pre-commit|docker|uvx|pipx).*tcready.*$|^.*worker\.pyz.*$", text, re.M)
    )
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", ours))
    assert named - FLAGS - WORKER_FLAGS - {"--help"} == set()
    codes = {rule.code for rule in load()}
    assert set(re.findall(r"\bTCR\d{3}\b", text)) <= codes
    families = {code[:4] for code in codes} | {"TCR6"}
    assert set(re.findall(r"\b(TCR\d)(?:xx)?\b", text)) <= families


HOME = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/SECURITY.md")]


@pytest.mark.parametrize("page", [*HOME, *PAGES], ids=ids)
def test_relative_links_lead_to_files(page: Path) -> None:
    """On the pages as files, as they are read in the repository; the build below sees to the anchors."""
    prose = re.sub(r"^```.*?^```|`[^`\n]*`", "", page.read_text("utf-8"), flags=re.M | re.S)
    targets = re.findall(r"\]\((?!https?:)([^)#\s]+)[^)]*\)", prose)
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", [*PROSE, ROOT / "CONTRIBUTING.md"], ids=ids)
def test_files_of_ours_that_are_named_exist(page: Path) -> None:
    own = r"`((?:analyzer|benchmarks|docs|fixtures|reports|rules|tests|\.ci)/[\w./-]+)`"
    for name in re.findall(own, page.read_text(encoding="utf-8")):
        assert re.search(r"NAME|VERSION", name) or (ROOT / name).exists(), name


@pytest.mark.slow
@pytest.mark.skipif(sys.version_info < (3, 11), reason="Sphinx and MyST of the docs extra need Python 3.11")
def test_the_pages_build_without_a_warning(tmp_path: Path) -> None:
    done = sphinx(DOCS / "pages", tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Sphinx and MyST of the docs extra need Python 3.11")
def test_a_link_that_leads_nowhere_fails_the_build(tmp_path: Path) -> None:
    (tmp_path / "index.md").write_text(
        dedent("""\
        # A

        [page](gone.md) [anchor](#gone) ![image](gone.png)

        ## B

        [b](#b)
    """)
    )
    done = sphinx(tmp_path, tmp_path / "out")
    assert done.returncode == 1
    assert done.stderr.count("gone") == 3, done.stderr
    assert "'b'" not in done.stderr


def examples() -> Iterator[Any]:
    for page in [ROOT / "README.md", *WRITTEN]:
        for number, block in enumerate(re.findall(r"^```console\n(.*?)^```$", page.read_text("utf-8"), re.M | re.S)):
            yield pytest.param(block, id=f"{page.stem}-{number}")


@pytest.mark.parametrize("block", list(examples()))
def test_examples_print_what_they_show(
    block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """`$ tcready ...` and its stdout, `...` for lines left out, `$ echo $?` for the exit."""
    shutil.copytree(ROOT / "fixtures" / "models", tmp_path / "fixtures" / "models")
    shutil.copytree(ROOT / "fixtures" / "broken", tmp_path / "fixtures" / "broken")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    code: object = None
    steps = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.M)
    assert steps
    for command, shown in steps:
        if command == "echo $?":
            assert shown.strip() == str(code)
            continue
        program, *arguments = command.split()
        assert program == "tcready"
        assert "--no-run" in arguments or arguments[0] in ("rule", "rules", "explain"), (
            "an example that runs a model is no test"
        )
        with pytest.raises(SystemExit) as ended:
            cli.main(arguments)
        code = ended.value.code
        printed = capfd.readouterr().out
        pattern = ".*".join(map(re.escape, re.split(r"^\.\.\.\n", shown, flags=re.M)))
        assert re.fullmatch(pattern, printed, re.S), printed


NEEDS_ACTION = {"changed", "deprecated", "removed"}
FRAGMENT = re.compile(r"(?:\+[\w-]+|\d+)\.(\w+)\.md")


def find_entries_without_action(changelog: str, fragments: dict[str, str]) -> list[str]:
    """The entries under Changed, Deprecated and Removed that do not say what users have to do."""
    entries = [
        entry
        for heading, part in re.findall(r"^### (\w+)\n(.*?)(?=^##|\Z)", changelog, re.M | re.S)
        if heading.lower() in NEEDS_ACTION
        for entry in re.split(r"^- ", part, flags=re.M)[1:]
    ]
    entries += [text for kind, text in fragments.items() if kind.split(".")[-2] in NEEDS_ACTION]
    return [entry for entry in entries if not re.search(r"\*\*To do\*\*:\s", entry)]


def read_fragments() -> dict[str, str]:
    files = [path for path in (ROOT / "changelog.d").iterdir() if path.name != "README.md"]
    return {path.name: path.read_text("utf-8") for path in files}


def test_entries_about_changes_say_what_to_do() -> None:
    assert find_entries_without_action((ROOT / "CHANGELOG.md").read_text("utf-8"), read_fragments()) == []
    complete, incomplete = "The flag is new. **To do**: nothing.", "The flag is gone."
    changelog = f"## 1.0\n\n### Added\n\n- {incomplete}\n\n### Removed\n\n- {complete}\n- {incomplete}\n"
    fragments = {"1.changed.md": complete, "+flag.removed.md": incomplete, "2.added.md": incomplete}
    assert find_entries_without_action(changelog, fragments) == [incomplete + "\n", incomplete]


def test_changelog_fragments_are_collected(tmp_path: Path) -> None:
    pytest.importorskip("towncrier", reason="the extra `dev` brings it")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    kinds = {each["directory"] for each in project["tool"]["towncrier"]["type"]}
    names = [FRAGMENT.fullmatch(name) for name in read_fragments()]
    assert all(name and name[1] in kinds for name in names)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copytree(ROOT / "changelog.d", tmp_path / "changelog.d")
    (tmp_path / "changelog.d" / "+flag.removed.md").write_text("The flag is gone.\n")
    command = [sys.executable, "-m", "towncrier", "build", "--draft", "--version", "9.8.7"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True)
    assert re.search(r"^## 9\.8\.7 .*^### Removed\n+- The flag is gone\.$", done.stdout, re.M | re.S)


@pytest.mark.parametrize(
    ("name", "lines", "characters"),
    [("README.md", 120, 10_000), ("CONTRIBUTING.md", 200, 8_192), ("docs/pages/limits.md", 120, 10_000)],
)
def test_documents_stay_short(name: str, lines: int, characters: int) -> None:
    text = (ROOT / name).read_text("utf-8")
    assert (text.count("\n") <= lines, len(text) <= characters) == (True, True)


def test_the_readme_shows_findings_as_they_are_predicted() -> None:
    """Its example is the output of a run; what the static pass says of these lines is compared here."""
    shown = re.findall(
        r"^(examples/\S+?):(\d+):(\d+): (TCR\d+) (\w+) (.*) \(confirmed\) (\w+)$",
        (ROOT / "README.md").read_text("utf-8"),
        re.M,
    )
    assert shown
    predicted = {
        (each.path, str(each.line), str(each.column), each.rule, each.level, each.message, each.fingerprint[:7])
        for each in api.check(["examples/quantizer.py"], run=False, root=ROOT).findings
    }
    assert set(shown) <= predicted


def test_every_dependency_has_its_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = [item for group in project["optional-dependencies"].values() for item in group]
    names = {match[0] for item in (*project["dependencies"], *extras) if (match := re.match(r"[\w-]+", item))}
    page = (DOCS / "pages" / "dependencies.md").read_text("utf-8")
    assert {name for name in names - {"tcready"} if not re.search(rf"\b{name}\b", page)} == set()


def test_what_users_install_has_lower_bounds_and_no_upper_ones() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    of_the_repository = {"test", "docs", "dist", "dev", "libraries"}
    extras = project["optional-dependencies"]
    named = [item for name, group in extras.items() if name not in of_the_repository for item in group]
    for item in (*project["dependencies"], *named):
        assert re.fullmatch(r"[\w-]+>=[\d.]+", item.partition(";")[0].strip()), item


# the schema


def strict(schema: Any) -> Any:
    """The schema with no room for a field that it does not name."""
    if isinstance(schema, dict):
        closed = {"additionalProperties": False} if "properties" in schema else {}
        return {**{key: strict(value) for key, value in schema.items()}, **closed}
    return [strict(item) for item in schema] if isinstance(schema, list) else schema


@functools.cache
def validator(name: str) -> Draft202012Validator:
    schema = json.loads((DOCS / "schema" / f"{name}.schema.json").read_text("utf-8"))
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(strict(schema))


@pytest.mark.parametrize(
    ("name", "path"),
    [
        *(("report", path) for path in sorted((ROOT / "fixtures" / "reports").glob("*.json"))),
        *(("observation", path) for path in sorted((ROOT / "fixtures" / "cuda").glob("*.json"))),
    ],
    ids=lambda value: value if isinstance(value, str) else value.stem,
)
def test_the_schema_holds_what_is_written_and_nothing_else(name: str, path: Path) -> None:
    data = json.loads(path.read_text("utf-8"))
    assert [error.message for error in validator(name).iter_errors(data)] == []


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("schema_version",), 2),
        (("findings", 0, "level"), "fatal"),
        (("findings", 0, "line"), "12"),
        (("findings", 0, "shape", "frame", "fate"), None),
        (("targets", 0, "coverage", "share"), None),
        (("targets", 0, "verdict"), None),
    ],
)
def test_the_schema_refuses_what_is_wrong(place: tuple[str | int, ...], value: object) -> None:
    """`None` takes the field away, where it has no default."""
    data = json.loads((ROOT / "fixtures" / "reports" / "broken.json").read_text("utf-8"))
    data["findings"].sort(key=lambda finding: finding["shape"] is None)
    data["targets"].sort(key=lambda target: target["coverage"] is None)
    owner = data
    for step in place[:-1]:
        owner = owner[step]
    if value is None:
        del owner[place[-1]]
    else:
        owner[place[-1]] = value
    assert list(validator("report").iter_errors(data))


def test_the_versions_of_torch_that_are_named_are_those_that_were_run() -> None:
    rows = json.loads((ROOT / "docs" / "torch_versions.json").read_text("utf-8"))
    run = [row["torch"].partition("+")[0] for row in rows]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    (requirement,) = [line for line in project["optional-dependencies"]["torch"] if line.startswith("torch")]
    assert requirement == f"torch>={run[0].rpartition('.')[0]}"
    readme = (ROOT / "README.md").read_text("utf-8")
    assert set(re.findall(r"\b2\.\d+\.\d+\b", readme)) <= {*run}
    minors = [version.rpartition(".")[0] for version in run]
    assert f"under torch {', '.join(minors[:-1])} and {minors[-1]}" in readme
