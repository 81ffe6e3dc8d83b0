"""The recorder of unseen models: what is a cascade, how packages are parted, and what the committed files hold."""

from __future__ import annotations

import argparse
import importlib.util
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import tomllib

ROOT = Path(__file__).resolve().parents[2]
RECORDS = ROOT / "fixtures" / "accuracy"
FILE = ROOT / "benchmarks" / "record.py"
spec = importlib.util.spec_from_file_location("benchmarks_record", FILE)
assert spec is not None
assert spec.loader is not None
record = importlib.util.module_from_spec(spec)
spec.loader.exec_module(record)


def model(package: str, *sites: tuple[str, str]) -> dict[str, Any]:
    """A record with (path, kind) of each site."""
    made = [{"path": path, "line": 1, "gb_types": [kind], "cascade": False} for path, kind in sites]
    return {"package": package, "break_sites": made}


def test_a_kind_that_never_comes_first_is_a_cascade() -> None:
    records = [model("a", ("a.py", "first"), ("a.py", "later")), model("b", ("b.py", "other"), ("b.py", "first"))]
    marked = record.marked(records, record.roots(records, []))
    assert [[s["cascade"] for s in r["break_sites"]] for r in marked] == [[False, True], [False, False]]


def test_other_records_can_say_that_a_kind_is_none() -> None:
    records = [model("a", ("a.py", "first"), ("a.py", "later"))]
    marked = record.marked(records, record.roots(records, [model("z", ("z.py", "later"))]))
    assert [s["cascade"] for s in marked[0]["break_sites"]] == [False, False]


def test_each_package_is_in_one_half_and_breaks_are_even() -> None:
    records = [model(name, (f"{name}.py", "k")) for name in "abcdef" for _ in range(2)] + [model("clean")]
    first, second = record.halves(records)
    assert not {r["package"] for r in first} & {r["package"] for r in second}
    assert record.broken(first) == record.broken(second) == 6
    assert len(first) + len(second) == len(records)


def test_packages_that_break_in_one_file_stay_together() -> None:
    records = [
        model("a", ("a.py", "k")),
        model("b", ("b.py", "k")),
        model("c", ("a.py", "k"), ("b.py", "k")),
        model("d"),
    ]
    assert sorted(sorted(group) for group in record.groups(records)) == [["a", "b", "c"], ["d"]]


def test_one_file_holds_all_records_with_cascades_told_by_other_files_too(tmp_path: Path) -> None:
    first = model("b", ("b.py", "first"), ("b.py", "later"), ("b.py", "known"), ("shim.py", "known"))
    last = model("a", ("a.py", "later")) | {"outside_first": True}
    for name, records in (("new", [first, last]), ("known", [model("z", ("z.py", "known"))])):
        added = {"executed": {"x.py": "1", "shim.py": "2"}, "skipped_frames": [{"path": "shim.py"}]}
        made = [r | added | {"id": r["package"]} for r in records]
        record.write(tmp_path / name, made)
    output = tmp_path / "out"
    record.whole(
        argparse.Namespace(records=tmp_path / "new", output=output, also=[tmp_path / "known"], drop=["shim.py"])
    )
    written = record.read(output)
    assert [r["id"] for r in written] == ["a", "b"]
    assert [s["cascade"] for s in written[0]["break_sites"]] == [True]
    assert [s["cascade"] for s in written[1]["break_sites"]] == [False, True, False]
    assert all(r["executed"] == {"x.py": "1"} and not r["skipped_frames"] for r in written)


def committed(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (RECORDS / name).read_text("utf-8").splitlines()]


def test_the_second_halves_have_every_model_of_their_table_and_no_package_of_another_file() -> None:
    halves = [committed("unseen-second-look.jsonl"), committed("unseen-second-kept.jsonl")]
    assert not {r["package"] for r in halves[0]} & {r["package"] for r in halves[1]}
    fresh = halves[0] + halves[1]
    table = tomllib.loads((ROOT / "benchmarks" / "unseen2.toml").read_text("utf-8"))["model"]
    assert sorted(r["id"] for r in fresh) == sorted(row["id"] for row in table)
    packages = Counter(r["package"] for r in fresh)
    assert max(packages.values()) <= 6
    others = [r for f in ("unseen-look", "unseen-kept", "records") for r in committed(f"{f}.jsonl")]
    assert not packages.keys() & {r["package"] for r in others}


@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("sixth", "unseen6.toml"),
        ("seventh", "unseen7.toml"),
        ("ninth", "unseen9.toml"),
        ("tenth", "unseen10.toml"),
        ("eleventh", "unseen11.toml"),
        ("twelfth", "unseen12.toml"),
        ("thirteenth", "unseen13.toml"),
        ("fourteenth", "unseen14.toml"),
        ("fifteenth", "unseen15.toml"),
        ("sixteenth", "unseen16.toml"),
        ("seventeenth", "unseen17.toml"),
        ("eighteenth", "unseen18.toml"),
        ("nineteenth", "unseen19.toml"),
        ("twentieth", "unseen20.toml"),
        ("twenty-first", "unseen21.toml"),
        ("twenty-second", "unseen22.toml"),
        ("twenty-third", "unseen23.toml"),
        ("twenty-fourth", "unseen24.toml"),
        ("twenty-fifth", "unseen25.toml"),
    ],
)
def test_later_halves_have_every_model_of_their_table_and_no_package_of_another_file(name: str, table: str) -> None:
    halves = [committed(f"unseen-{name}-look.jsonl"), committed(f"unseen-{name}-kept.jsonl")]
    packages = [{r["package"] for r in half} for half in halves]
    assert not packages[0] & packages[1]
    rows = tomllib.loads((ROOT / "benchmarks" / table).read_text("utf-8"))["model"]
    assert sorted(r["id"] for half in halves for r in half) == sorted(row["id"] for row in rows)
    others = [path for path in RECORDS.glob("*.jsonl") if name not in path.name]
    known = {r["package"] for path in others for r in committed(path.name) if "package" in r}
    assert known
    assert not (packages[0] | packages[1]) & known


def test_the_eighth_file_has_every_model_of_its_table_and_no_package_of_another_file() -> None:
    eighth = committed("unseen-eighth.jsonl")
    rows = tomllib.loads((ROOT / "benchmarks" / "unseen8.toml").read_text("utf-8"))["model"]
    assert sorted(r["id"] for r in eighth) == sorted(row["id"] for row in rows)
    packages = Counter(r["package"] for r in eighth)
    assert max(packages.values()) <= 5
    others = [path for path in RECORDS.glob("*.jsonl") if "eighth" not in path.name]
    assert not packages.keys() & {r["package"] for path in others for r in committed(path.name) if "package" in r}


def test_the_requirements_pin_each_recorded_package_at_its_recorded_version() -> None:
    def plain(name: str) -> str:
        return re.sub(r"[-_.]+", "-", name).lower()

    lines = (RECORDS / "unseen-requirements.txt").read_text("utf-8").split()
    pinned = {plain(name): version for name, _, version in (line.partition("==") for line in lines)}
    for file in (
        "unseen-look",
        "unseen-kept",
        *(
            f"unseen-{n}-{half}"
            for n in (
                "second",
                "seventh",
                "ninth",
                "tenth",
                "eleventh",
                "twelfth",
                "thirteenth",
                "fourteenth",
                "fifteenth",
                "sixteenth",
                "seventeenth",
                "eighteenth",
                "nineteenth",
                "twentieth",
                "twenty-first",
                "twenty-second",
                "twenty-third",
                "twenty-fourth",
                "twenty-fifth",
            )
            for half in ("look", "kept")
        ),
        "unseen-eighth",
    ):
        for r in committed(f"{file}.jsonl"):
            package = r["package"]
            assert pinned[plain(package)] == r["versions"].get(package, pinned[plain(package)]), package
