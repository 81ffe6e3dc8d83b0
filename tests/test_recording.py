"""The recorder of unseen models: what is a cascade, and how packages are parted."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

FILE = Path(__file__).resolve().parent.parent / "benchmarks" / "record.py"
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
    records = [
        model("a", ("a.py", "first"), ("a.py", "later")),
        model("b", ("b.py", "other"), ("b.py", "first")),
    ]
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
