"""The workflows of the repository: they name what exists, ask for no right that they do not need, and run no text of others."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import dedent
from types import MappingProxyType
from typing import Any

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = pytest.importorskip("tomli")

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".github" / "workflows"
WORKFLOWS = sorted(FOLDER.glob("*.yml"))
ACTION = ROOT / ".github" / "actions" / "tcready" / "action.yml"
RIGHTS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "docs.yml: deploy": MappingProxyType({"pages": "write", "id-token": "write"}),
        "release.yml: publish": MappingProxyType({"id-token": "write"}),
    }
)
"""What jobs may do beyond reading the repository."""
TRIGGERS = {"push", "pull_request", "workflow_call", "workflow_dispatch"}
"""None of them runs the code of a fork with rights or secrets of this repository."""
MADE = {"docs/build"}
"""Paths that a step makes."""


def load(text: str) -> dict[str, Any]:
    found = yaml.safe_load(text)
    found["on"] = found.pop(True)  # YAML 1.1 reads the key `on` as a boolean
    return found  # type: ignore[no-any-return]


def find_problems(name: str, text: str) -> Iterator[str]:
    workflow = load(text)
    if not workflow["on"].keys() <= TRIGGERS:
        yield f"triggers: {sorted(workflow['on'].keys() - TRIGGERS)}"
    if workflow.get("permissions") != {"contents": "read"}:
        yield "permissions: the workflow may do more than read"
    for job_name, job in workflow["jobs"].items():
        rights = job.get("permissions")
        if rights != RIGHTS.get(f"{name}: {job_name}"):
            yield f"permissions: {job_name} has {rights}"
        if "uses" not in job and "timeout-minutes" not in job:
            yield f"timeout: {job_name} has none"
        steps = job.get("steps", ())
        if "id-token" in (rights or {}) and any("run" in step or "checkout" in step.get("uses", "") for step in steps):
            yield f"token: {job_name} could run code of the repository"
        for step in steps:
            if (
                step.get("uses", "").startswith("actions/checkout@")
                and step.get("with", {}).get("persist-credentials") is not False
            ):
                yield f"token: {job_name} leaves its token in the clone"
            if "run" in step:
                yield from find_problems_of_script(step["run"])
    yield from find_problems_of_uses(text)


def find_problems_of_script(script: str) -> Iterator[str]:
    if "${{" in script:
        yield f"injection: an expression could become code in `{script}`"
    words = [word.strip("'\"") for word in script.split()]
    for word in words:
        path = ROOT / word
        if "/" not in word or "$" in word or word in MADE:
            continue
        if not path.exists():
            yield f"files: there is no {word}"
        elif word == words[0] and not os.access(path, os.X_OK):
            yield f"files: {word} is not executable"
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    for extra in re.findall(r"\.\[([\w,-]+)\]", script):
        if not set(extra.split(",")) <= extras.keys():
            yield f"files: there is no extra {extra}"


def find_problems_of_uses(text: str) -> Iterator[str]:
    """A tag can be moved; a hash is the code that was there, and the comment says of which version."""
    for used in re.findall(r"uses: *(.*)$", text, re.M):
        if used.startswith("./"):
            if not (ROOT / used).exists():
                yield f"files: there is no {used}"
        elif not re.fullmatch(r"[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", used):
            yield f"pins: {used}"


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_names_what_exists_and_may_do_what_it_must(path: Path) -> None:
    assert list(find_problems(path.name, path.read_text("utf-8"))) == []


def test_the_action_uses_others_by_hash() -> None:
    assert list(find_problems_of_uses(ACTION.read_text("utf-8"))) == []


def test_an_action_has_the_same_version_everywhere() -> None:
    used = {
        use
        for path in [*WORKFLOWS, ACTION]
        for use in re.findall(r"uses: *([\w.-]+/\S+@\S+ # \S+)$", path.read_text("utf-8"), re.M)
    }
    assert len(used) > 5
    assert len({use.partition("@")[0] for use in used}) == len(used)


def test_a_workflow_that_could_do_harm_is_found() -> None:
    text = dedent("""\
        on:
          pull_request_target:
        permissions: write-all
        jobs:
          publish:
            permissions:
              id-token: write
            steps:
              - uses: actions/checkout@v4
              - run: echo ${{ github.head_ref }} && .ci/gone
              - run: .ci/pin.py && pip install '.[gone]'
    """)
    problems = [each.partition(":")[0] for each in find_problems("other.yml", text)]
    assert problems == [
        "triggers", "permissions", "permissions", "timeout", "token", "token", "injection", "files", "files", "files", "pins",
    ]  # fmt: skip


def test_every_python_that_is_supported_is_tested() -> None:
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["classifiers"]
    supported = [found[1] for each in classifiers if (found := re.search(r":: (3\.\d+)$", each))]
    jobs = load((FOLDER / "ci.yml").read_text("utf-8"))["jobs"]
    assert jobs["without-torch"]["strategy"]["matrix"]["python"] == supported


def test_what_is_published_was_tested_and_built_without_the_token() -> None:
    workflow = load((FOLDER / "release.yml").read_text("utf-8"))
    assert workflow["on"] == {"push": {"tags": ["v*"]}}
    jobs = workflow["jobs"]
    assert jobs["ci"]["uses"] == "./.github/workflows/ci.yml"
    assert "workflow_call" in load((FOLDER / "ci.yml").read_text("utf-8"))["on"]
    assert set(jobs["publish"]["needs"]) == {"ci", "build"}
    assert jobs["publish"]["environment"]["name"] == "pypi"
    (upload,) = [step["with"] for step in jobs["build"]["steps"] if "upload-artifact" in step.get("uses", "")]
    download, publish = [step["with"] for step in jobs["publish"]["steps"]]
    assert (download["name"], download["path"]) == (upload["name"], upload["path"])
    assert publish == {"attestations": True}
