"""The lookup of formats, the JSON, the goldens, and what all formats have in common."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import jsonschema
import pytest
import regenerate
from report_samples import SAMPLES, broken, changed, clean, hostile, report, sample, source, target
from tcready.reports import FORMATS, render
from tcready.reports.shared.anonymous_paths import without_absolute_paths
from tcready.schema.codec import as_json, from_json
from tcready.schema.enums import TcreadyError
from tcready.schema.report import Region, Report
from tcready.schema.static import Skipped

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "fixtures" / "report.schema.json").read_text())


def fresh(code: str, **environment: str) -> str:
    """What a fresh interpreter prints."""
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent), **environment},
        check=True,
        capture_output=True,
        text=True,
        encoding="utf-8",
    ).stdout


@pytest.mark.parametrize("name", sorted(set(SAMPLES) - {"hostile"}))
def test_json_is_valid_against_the_schema(name: str) -> None:
    jsonschema.Draft202012Validator(SCHEMA).validate(json.loads(render(sample(name), "json")))


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_json_is_sorted_and_reads_back(name: str) -> None:
    made = sample(name)
    text = render(made, "json")
    assert text.endswith("}\n")
    assert text.isascii()
    data = json.loads(text, object_pairs_hook=_sorted_object)
    back = from_json(Report, data)
    if name == "hostile":  # its one NaN has become null
        made = dataclasses.replace(made, targets=(changed(made.targets[0], bench=back.targets[0].observation.bench),))
    assert back == made


def _sorted_object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    names = [name for name, _ in pairs]
    assert names == sorted(names)
    return dict(pairs)


def test_json_spells_no_number_that_json_lacks() -> None:
    def refuse(word: str) -> object:
        raise AssertionError(word)

    json.loads(render(hostile(), "json"), parse_constant=refuse)


def test_json_survives_a_lone_surrogate() -> None:
    odd = report(skipped=(Skipped("bad\udcff.py", "no"),))
    assert json.loads(render(odd, "json"))["skipped"][0]["path"] == "bad\udcff.py"
    for form in ("text", "html"):
        assert "bad\\udcff.py" in render(odd, form).encode("utf-8").decode()


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("odd", [0xDCFF, 0xD800], ids=["a byte", "nothing"])
def test_a_path_that_is_no_text_is_rendered(odd: int, form: str) -> None:
    (one, *_) = broken().findings
    assert render(report(findings=(dataclasses.replace(one, path=f"bad{chr(odd)}.py"),)), form)


@pytest.mark.parametrize("form", FORMATS)
def test_a_target_that_names_no_place_is_rendered(form: str) -> None:
    """A report comes from anywhere: what it calls a target may be no target."""
    region = Region("*", 1, "predicted", "", "model.layers.compile()")
    (one, *_) = sample("clean").targets
    forged = dataclasses.replace(one, observation=dataclasses.replace(one.observation, target=""), regions=(region,))
    assert isinstance(render(report(targets=(forged,)), form), str)


def test_an_unknown_format_is_told_with_the_known_ones() -> None:
    with pytest.raises(TcreadyError, match=r"yaml.*html.*json.*text"):
        render(clean(), "yaml")


def test_importing_reports_loads_no_renderer() -> None:
    loaded = fresh(
        "import sys, report_samples, tcready.reports as r\n"
        "r.render(report_samples.broken(), 'json')\n"
        "print(sorted({'rich', 'jinja2', 'markupsafe', 'torch', 'libcst'} & set(sys.modules)))"
    )
    assert loaded.strip() == "[]"


@pytest.mark.parametrize("form", sorted(regenerate.ENDING))
@pytest.mark.parametrize("name", regenerate.GOLDEN)
def test_golden(name: str, form: str) -> None:
    path, content = regenerate.golden(name, form)
    assert content == path.read_bytes(), "python tests/reports/regenerate.py, then read the diff"


def test_the_bytes_do_not_depend_on_the_hash_seed_or_the_surroundings() -> None:
    code = dedent("""\
            import hashlib, report_samples as s, tcready.reports as r
            for name in sorted(s.SAMPLES):
                for form in sorted(r.FORMATS):
                    print(name, form, hashlib.sha256(r.render(s.sample(name), form).encode()).hexdigest())""")
    here = [
        f"{name} {form} {hashlib.sha256(render(sample(name), form).encode()).hexdigest()}"
        for name in sorted(SAMPLES)
        for form in sorted(FORMATS)
    ]
    odd = {"PYTHONHASHSEED": "4242", "COLUMNS": "37", "FORCE_COLOR": "1", "TERM": "dumb", "TZ": "Asia/Tokyo"}
    assert fresh(code, **odd).splitlines() == here


def test_absolute_paths_become_file_names_wherever_they_stand() -> None:
    one, two = "/home/ann/a/model.py", "/home/ann/b/model.py"
    made = report(
        targets=(
            target(f"{one}::Net", verdict_reason=f"it broke in {two}", environment={"exe": "/opt/py/bin/python"}),
        ),
        sources=(source("model.py", "# /home/ann stays in a source\n"), source(one, ""), source(two, "")),
        warnings=(
            f"{one}:3: odd",
            'File "/usr/lib/python3.11/copy.py", line 3',
            r"C:\Users\ann\x.py failed",
            "https://example.org/a/b and and/or and 1/2",
        ),
    )
    shown = without_absolute_paths(made)
    assert [item.path for item in shown.sources] == ["model.py", "model.py (2)", "model.py (3)"]
    assert shown.targets[0].target == "model.py (2)::Net"
    assert shown.targets[0].verdict_reason == "it broke in model.py (3)"
    assert shown.targets[0].environment == {"exe": "python"}
    assert shown.warnings == (
        "model.py (2):3: odd",
        'File "copy.py", line 3',
        "x.py failed",
        "https://example.org/a/b and and/or and 1/2",
    )
    assert shown.sources[0].text == "# /home/ann stays in a source\n"
    assert as_json(without_absolute_paths(clean())) == as_json(clean())
