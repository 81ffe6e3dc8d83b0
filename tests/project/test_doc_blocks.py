"""Every code block of README, CONTRIBUTING and the pages is executed by a test, or says why not.

A comment above a block, which no rendered page shows, marks what is not executed:

    <!-- not run: it runs a model on a GPU -->
    <!-- run in part: its other commands run models -->

Of the second kind, the commands that run no model are executed. The arguments of all others are read as the command line
reads them, so that nothing is shown that tcready would not take.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

import click
import pytest
import test_docs
from markdown_it import MarkdownIt  # rich brings it
from scratch_git import git
from tcready import api, cli
from tcready.config import pyproject
from tcready.config.resolution import VALUES
from tcready.pipeline.bench_run import sizes_of

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = pytest.importorskip("tomli")

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
GENERATED = "<!-- Written by docs/generate.py"
"""How the pages begin that are made from code: `test_docs` holds them to it, and the samples in them are the tests of rules and
of types of breaks."""
PROSE = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *(page for page in PAGES if not page.read_text("utf-8").startswith(GENERATED)),
]
MARK = re.compile(r"<!-- (not run|run in part): (\S.{8,}) -->")
READERS = {"report", "rule", "rules", "explain", "init", "completion", "worker"}
"""Commands that run no model, whatever they are asked."""
FOLDERS = {"src/", "."}


@dataclass(frozen=True)
class Block:
    page: str
    line: int
    info: str
    text: str
    mark: str | None
    """`not run`, `run in part`, or None."""

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def commands(self) -> list[list[str]] | None:
        """The commands, if each line is one of tcready, a comment, or, in a block that is run in part, anything else."""
        found = []
        for line in self.text.splitlines():
            command = re.split(r"\s{2,}(?!-)|\s+#", line.strip())[0]
            if command.startswith("tcready "):
                found.append(shlex.split(command)[1:])
            elif command and not command.startswith("#") and self.mark is None:
                return None
        return found


def blocks(page: Path) -> Iterator[Block]:
    above = ""
    for token in MarkdownIt().parse(page.read_text("utf-8")):
        if token.type in ("fence", "code_block"):
            assert token.map is not None
            mark = MARK.fullmatch(above.strip())
            name = page.relative_to(ROOT).as_posix()
            yield Block(name, token.map[0] + 1, token.info.strip(), token.content, mark[1] if mark else None)
        above = token.content if token.type == "html_block" else ""


EVERY = [block for page in PROSE for block in blocks(page)]


# what can be executed


def read_only(arguments: list[str]) -> bool:
    """Whether a command runs no model."""
    command, *rest = arguments
    if "--trace" in rest:
        return False  # it reads what a run has left
    if command == "fix":
        return "--verify" not in rest
    is_folder = command == "check" and FOLDERS & set(rest) and "--run" not in rest
    return command in READERS or "--no-run" in rest or bool(is_folder)


def run_commands(block: Block, _folder: Path) -> None:
    for arguments in block.commands or ():
        if read_only(arguments):
            with pytest.raises(SystemExit) as ended:
                cli.main(arguments)
            assert ended.value.code in (0, 1), arguments
        else:
            assert block.mark == "run in part", arguments
            parse(arguments)


def parse(arguments: list[str]) -> None:
    """Raises what the command line raises for arguments that it does not take."""
    command = cli.app.commands[arguments[0]]  # type: ignore[attr-defined]
    command.make_context(arguments[0], arguments[1:], parent=click.Context(cli.app, info_name="tcready"))


def read_toml(block: Block, folder: Path) -> None:
    found = tomllib.loads(block.text)
    if "targets" in found:
        (folder / "zoo.toml").write_text(block.text)
        assert len(pyproject.listed_targets(folder / "zoo.toml", "zoo.toml")) == len(found["targets"])
        return
    if "tool" not in found:
        read_commands(found)
        return
    (folder / "pyproject.toml").write_text(block.text)
    options = pyproject.options(folder, *VALUES, cli.CommandOptions)
    tables = pyproject.target_tables(folder)
    assert options or tables
    assert all(table.values for table in tables)


def read_yaml(block: Block, _folder: Path) -> None:
    yaml = pytest.importorskip("yaml")  # pre-commit brings it
    found = yaml.safe_load(textwrap.dedent(block.text))
    if "jobs" in found:
        action = yaml.safe_load((ROOT / ".github" / "actions" / "tcready" / "action.yml").read_text("utf-8"))
        steps = [step for job in found["jobs"].values() for step in job["steps"]]
        (ours,) = [step for step in steps if "tcready" in step["uses"]]
        assert ours["with"].keys() <= action["inputs"].keys()
        return
    entries = found if isinstance(found, list) else [hook for repo in found["repos"] for hook in repo["hooks"]]
    known = {hook["id"] for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))}
    assert {entry["id"] for entry in entries} <= known


def read_json(block: Block, _folder: Path) -> None:
    read_commands(json.loads(block.text))


def read_lua(block: Block, _folder: Path) -> None:
    (command,) = re.findall(r"cmd = \{(.*?)\}", block.text)
    name, *arguments = json.loads(f"[{command}]")
    read_commands({"command": name, "args": arguments})


def read_commands(settings: Any) -> None:
    """The commands that settings of other programs start: a text that ends in `tcready`, and the arguments beside it."""
    found = list(commands_in(settings))
    assert found
    for arguments in found:
        parse(arguments)


def commands_in(settings: Any) -> Iterator[list[str]]:
    if isinstance(settings, dict):
        texts = [value for value in settings.values() if isinstance(value, str)]
        if any(Path(text).name == "tcready" for text in texts):
            (arguments,) = [value for key, value in settings.items() if "arg" in key.lower()]
            yield arguments
    for each in settings.values() if isinstance(settings, dict) else settings if isinstance(settings, list) else ():
        yield from commands_in(each)


def read_sizes(block: Block, folder: Path) -> None:
    (folder / "production.csv").write_text(block.text)
    assert len(sizes_of(str(folder / "production.csv"))) == block.text.count("\n") - 1


def silence(block: Block, folder: Path) -> None:
    """The line in a model: what its comment names is found there without the comment alone."""
    body = dedent("""\
            from torch import nn


            class Net(nn.Module):
                def forward(self, lengths):
                    {}        return n
        """)
    shown = [block.text, block.text.partition("  #")[0] + "\n"]
    rules = []
    for line in shown:
        (folder / "silenced.py").write_text(body.format(line))
        rules.append([finding.rule for finding in api.check(["silenced.py"], run=False, root=folder).findings])
    assert rules == [[], ["TCR201"]]


def run_python(block: Block, _folder: Path) -> None:
    exec(compile(block.text, str(block), "exec"), {})


def executed_elsewhere(_block: Block, _folder: Path) -> None:
    """`test_docs`: examples with what they print, and lists of pages, by the build."""


def executed_with_torch(_block: Block, _folder: Path) -> None:
    """Below, by the test that loads torch."""


Runner = Callable[[Block, Path], None]


def runner(block: Block) -> Runner | None:
    """What executes a block; None if nothing does."""
    if block.info == "console" or block.info.startswith("{toctree}"):
        return executed_elsewhere if ROOT / block.page in test_docs.PROSE else None
    if needs_torch(block):
        return executed_with_torch
    if block.info == "python":
        return silence if "# noqa" in block.text else run_python
    if block.text.startswith("batch,"):
        return read_sizes
    if block.info in ("", "sh") and block.commands:
        return run_commands
    return {"toml": read_toml, "yaml": read_yaml, "json": read_json, "lua": read_lua}.get(block.info)


def needs_torch(block: Block) -> bool:
    about = "import torch", "compile_ready", "tcready.check(net"
    return block.info == "python" and any(text in block.text for text in about)


# the inventory


def test_every_block_is_executed_or_says_why_not() -> None:
    assert len(EVERY) > 60, "the pages are found"
    assert [str(block) for block in EVERY if block.mark is None and runner(block) is None] == []
    part = [block for block in EVERY if block.mark == "run in part"]
    assert [str(block) for block in part if not any(map(read_only, block.commands or ()))] == [], "nothing is run"
    assert [
        str(block)
        for block in EVERY
        if block.mark == "run in part" and all(map(read_only, block.commands or ())) and only_ours(block)
    ] == [], "all of it could be run"


def only_ours(block: Block) -> bool:
    return all(line.startswith(("tcready ", "#")) for line in block.text.splitlines() if line.strip())


def test_every_mark_stands_above_a_block() -> None:
    for page in PROSE:
        comments = [t for t in MarkdownIt().parse(page.read_text("utf-8")) if t.type == "html_block"]
        marks = [t for t in comments if re.search(r"not run|run in part", t.content)]
        assert len(marks) == sum(block.mark is not None for block in blocks(page)), page


@pytest.mark.parametrize(
    ("page", "said"),
    [
        (
            dedent("""\
            ```sh
            make it so
            ```
        """),
            [None],
        ),
        (
            dedent("""\
            <!-- not run: -->
            ```sh
            make it so
            ```
        """),
            [None],
        ),
        (
            dedent("""\
            <!-- not run: it needs a GPU -->
            ```sh
            make it so
            ```
        """),
            ["not run"],
        ),
        (
            dedent("""\
            <!-- not run: it needs a GPU -->

            text

            ```sh
            make it so
            ```
        """),
            [None],
        ),
        (
            dedent("""\
            - a

              <!-- run in part: it needs a GPU -->
              ```
              tcready check a.py
              ```
        """),
            ["run in part"],
        ),
    ],
)
def test_a_mark_without_a_reason_or_a_block_is_none(
    page: str, said: list[str | None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    (tmp_path / "page.md").write_text(page)
    found = list(blocks(tmp_path / "page.md"))
    assert [block.mark for block in found] == said


# what is executed


NET = """\
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            print("positive")
        return x + 1
"""


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project that has what the commands of the pages name."""
    folder = tmp_path_factory.mktemp("scratch")
    for name in ("model.py", "src/net.py", "src/model.py", "src/vendored/old.py", "tests/test_net.py", "pkg/models.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(NET)
    (folder / "pkg" / "__init__.py").write_text("")
    (folder / "data.py").write_text(
        dedent("""\
        import torch


        def example():
            return torch.randn(2, 8)
    """)
    )
    shutil.copytree(ROOT / "examples", folder / "examples")
    for names, target in ((("report", "a", "laptop", "before", "after", "both"), "model.py"), (("b",), "src/net.py")):
        text = api.render(api.check([target], run=False, root=folder), "json")
        for name in names:
            (folder / f"{name}.json").write_text(text)
    shutil.copy(ROOT / "fixtures" / "cuda" / "vit.json", folder / "gpu.json")
    git(folder, "init", "-q", ".")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")
    git(folder, "update-ref", "refs/remotes/origin/main", "HEAD")
    return folder


@pytest.mark.parametrize(
    "block", [block for block in EVERY if block.mark == "not run" and block.info != "text"], ids=str
)
def test_commands_that_are_not_run_are_what_the_command_line_takes(
    block: Block, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)  # some write into folders of the clone
    for arguments in shown_arguments(block.text):
        parse(arguments)


BETWEEN_COMMANDS = re.compile(
    r"""('[^']*'|"[^"]*")|\s{2,}(?!-)|\s+#|\s+>\s+|\s*(?:&&|\|\|?|;)\s*"""  # a quoted text is kept whole
)


def shown_arguments(text: str) -> list[list[str]]:
    """What each call of tcready in a block gets, also of one with a path before it, behind `&&` or as a module."""
    found = []
    for line in re.sub(r"\\\n\s*", " ", text).splitlines():
        for command in BETWEEN_COMMANDS.sub(lambda part: part[1] or "\n", line.strip()).splitlines():
            words = shlex.split(command.removeprefix("$ "), comments=True) if "tcready" in command else []
            at = next((n for n, word in enumerate(words) if re.fullmatch(r"(.*/)?tcready", word)), None)
            called = at is not None and (at == 0 or words[at - 1] == "-m" or all("=" in each for each in words[:at]))
            if at is not None and called and words[at + 1 :]:
                found.append(words[at + 1 :])
    return found


def test_calls_are_seen_wherever_they_stand_in_a_line() -> None:
    text = (
        "python -m venv .venv && .venv/bin/tcready check a.py --htmlx   # a page\n"
        "TORCH_TRACE=t tcready report \\\n  --trace t > x.txt\npython -m tcready check b.py | less\n"
        "pip install tcready\ntcready bench c.py --arm two='a = 1; torch.compile(model)' | less\n"
    )
    assert shown_arguments(text) == [
        ["check", "a.py", "--htmlx"],
        ["report", "--trace", "t"],
        ["check", "b.py"],
        ["bench", "c.py", "--arm", "two=a = 1; torch.compile(model)"],
    ]


def ours() -> list[Any]:
    elsewhere = (executed_elsewhere, executed_with_torch)
    return [
        pytest.param(block, id=str(block))
        for block in EVERY
        if block.mark != "not run" and (found := runner(block)) is not None and found not in elsewhere
    ]


@pytest.mark.parametrize("block", ours())
def test_a_block_does_what_it_shows(
    block: Block, scratch: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "project"
    shutil.copytree(scratch, folder)
    monkeypatch.chdir(folder)
    found = runner(block)
    assert found is not None
    found(block, folder)


@pytest.mark.torch
def test_what_needs_torch_does_what_it_shows(tmp_path: Path) -> None:
    """All in one process, by the very pytest that a reader would start: torch is loaded once."""
    net = dedent("""\
        import torch


        class Net(torch.nn.Linear):
            def __init__(self):
                super().__init__(8, 8)
    """)
    (tmp_path / "mymodel.py").write_text(net)
    head = dedent("""\
        import torch
        from mymodel import Net

    """)
    tests = 0
    for number, block in enumerate(b for b in EVERY if b.mark is None and runner(b) is executed_with_torch):
        if "compile_ready" in block.text:
            text = block.text
        elif "tcready.check(net" in block.text:
            body = f"net, x = Net(), torch.randn(2, 8)\n{block.text}\nassert found.verdict == 'ready'\n"
            text = f"def test_live():\n{textwrap.indent(body, '    ')}"
        else:
            called = "Model(*get_init_inputs())(*get_inputs())"
            text = f"{block.text}\n\ndef test_model():\n    assert {called}.shape == (4, 8)\n"
        (tmp_path / f"test_shown_{number}.py").write_text(head + text)
        tests += text.count("def test_")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert f"{tests} passed" in done.stdout
    assert tests >= 4
