"""Makes the commit and the tag of a release, or checks that a tag fits its commit.

    python .ci/release.py 0.2.0
    python .ci/release.py --check v0.2.0

The first writes the version into pyproject.toml and docs/sbom.cdx.json, moves the entries of changelog.d/ to CHANGELOG.md
(with towncrier, of the extra `dev`), commits that and tags the commit. It changes nothing if the tree is not clean or the
version cannot be released, and makes no commit if all of this is already done. It pushes nothing: to push the tag is to
publish.
The second is what `.github/workflows/release.yml` runs before it builds, and needs only Python 3.11.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
VERSION = re.compile(r"(0|[1-9]\d*)(\.(0|[1-9]\d*)){2}((a|b|rc)(0|[1-9]\d*))?")
"""As it is both in Semantic Versioning and, unchanged, in the name of a wheel; `0.2.0rc1` is a pre-release."""
SECTION = re.compile(r"^## (\S+)", re.M)
BILL = "docs/sbom.cdx.json"


class ReleaseError(Exception):
    """Something that the person who releases can put right."""


def current_version() -> str:
    """Return the version in pyproject.toml, the only place that builds read it from."""
    return str(tomllib.loads(_read("pyproject.toml"))["project"]["version"])


def release(version: str) -> None:
    """Make the commit of the release, unless everything it changes is done, and tag it."""
    if not VERSION.fullmatch(version):
        raise ReleaseError(f"{version} is not a version: write MAJOR.MINOR.PATCH, as in 0.2.0 or 0.2.0rc1")
    if _git("status", "--porcelain"):
        raise ReleaseError("the tree is not clean: commit or stash what `git status` lists")
    if _git("tag", "--list", f"v{version}"):
        raise ReleaseError(f"the tag v{version} exists: a version is released once")
    has_section = version in SECTION.findall(_read("CHANGELOG.md"))
    if _fragments() and has_section:
        raise ReleaseError(f"CHANGELOG.md has a section {version} already, and changelog.d/ has newer entries")
    if not _fragments() and not has_section:
        raise ReleaseError("there is nothing to release: changelog.d/ has no entries")
    if _fragments() and importlib.util.find_spec("towncrier") is None:
        raise ReleaseError("towncrier is not installed: install the extra `dev`")
    _write_version(current_version(), version)
    if _fragments():
        _run(sys.executable, "-m", "towncrier", "build", "--yes", "--version", version)
    if _git("status", "--porcelain"):
        _git("commit", "--quiet", "--all", "--message", f"Release {version}")
    check(f"v{version}")
    _git("tag", "--annotate", "--message", f"tcready {version}", f"v{version}")


def check(tag: str) -> None:
    """Raise ReleaseError unless the files of this commit are those of the release that the tag names."""
    problems = list(_problems(tag))
    if problems:
        raise ReleaseError("; ".join(problems))


def _problems(tag: str) -> Iterator[str]:
    version = tag.removeprefix("v")
    if tag == version or not VERSION.fullmatch(version):
        yield f"{tag} is not the tag of a release: that is vMAJOR.MINOR.PATCH"
    if current_version() != version:
        yield f"pyproject.toml has version {current_version()}, the tag is {tag}"
    if f"pkg:pypi/tcready@{version}" not in _read(BILL):
        yield f"{BILL} is of another version"
    if version != next(iter(SECTION.findall(_read("CHANGELOG.md"))), None):
        yield f"CHANGELOG.md does not begin with a section {version}"
    if _fragments():
        yield f"changelog.d/ has entries that are not in CHANGELOG.md: {', '.join(_fragments())}"


def _fragments() -> list[str]:
    return sorted(path.name for path in (ROOT / "changelog.d").iterdir() if path.name != "README.md")


def _write_version(old: str, new: str) -> None:
    """Write the version where it is stored: for builds, and in the bill of materials as that of tcready itself."""
    project = _read("pyproject.toml").replace(f'\nversion = "{old}"\n', f'\nversion = "{new}"\n', 1)
    own = re.compile(rf'("name": "tcready",\s+"version": "){re.escape(old)}"')
    bill = own.sub(rf'\g<1>{new}"', _read(BILL)).replace(f"pkg:pypi/tcready@{old}", f"pkg:pypi/tcready@{new}")
    (ROOT / "pyproject.toml").write_text(project, encoding="utf-8", newline="\n")
    (ROOT / BILL).write_text(bill, encoding="utf-8", newline="\n")


def _read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def _git(*arguments: str) -> str:
    return _run("git", *arguments)


def _run(*command: str) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603  ours
    if done.returncode:
        raise ReleaseError(f"`{' '.join(command)}` failed: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def main(arguments: list[str]) -> None:
    """Run as a command; end it with one line on stderr if the release cannot be made."""
    try:
        if len(arguments) == 2 and arguments[0] == "--check":
            check(arguments[1])
        elif len(arguments) == 1 and not arguments[0].startswith("-"):
            (version,) = arguments
            release(version)
            print(f"Review it with `git show v{version}`. To publish: git push --atomic origin HEAD v{version}")
        else:
            sys.exit(__doc__)
    except ReleaseError as error:
        sys.exit(f"release: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
