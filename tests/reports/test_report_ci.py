"""The formats that other programs read: SARIF, GitHub, GitLab, JUnit, Markdown."""

from __future__ import annotations

import dataclasses
import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import jsonschema
import pytest
from report_samples import SAMPLES, report, sample
from tcready.reports import render
from tcready.schema.edit import Edit
from tcready.schema.fix import Fix
from tcready.schema.static import Finding, RuleText
from tcready.source.edits import apply_edits

ROOT = Path(__file__).parents[2]
SARIF = json.loads((ROOT / "fixtures" / "sarif-schema-2.1.0.json").read_text("utf-8"))
FORMS = ("sarif", "github", "gitlab", "junit", "markdown")


def own(name: str) -> list[Finding]:
    return [f for f in sample(name).findings if f.origin == "own"]


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_sarif_is_valid_by_the_official_schema(name: str) -> None:
    log = json.loads(render(sample(name), "sarif"))
    jsonschema.Draft7Validator(SARIF).validate(log)
    (run,) = log["runs"]
    ids = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert ids == sorted(set(ids))
    assert len(run["results"]) == len(own(name))
    for result in run["results"]:
        assert ids[result["ruleIndex"]] == result["ruleId"]
        assert result["partialFingerprints"]["tcready/v1"]
        place = result["locations"][0]["physicalLocation"]
        assert not place["artifactLocation"]["uri"].startswith("/")
        assert place["region"]["startLine"] >= 1
    assert all(len(rule["properties"]["tags"]) <= 20 for rule in run["tool"]["driver"]["rules"])


@pytest.mark.parametrize("form", FORMS)
def test_a_name_with_bytes_that_are_no_text_is_rendered(form: str) -> None:
    made = dataclasses.replace(sample("broken"), findings=(dataclasses.replace(own("broken")[0], path="\udcff.py"),))
    assert "%FF.py" in render(made, "sarif")
    assert ".py" in render(made, form)


@pytest.mark.release
def test_sarif_keeps_the_heaviest_of_too_many_results() -> None:
    one = own("broken")[0]
    notes = [dataclasses.replace(one, level="note", line=n, fingerprint=f"n{n}") for n in range(1, 5001)]
    last = dataclasses.replace(one, level="error", path="z.py", fingerprint="last")
    made = dataclasses.replace(sample("broken"), findings=(*notes, last))
    (run,) = json.loads(render(made, "sarif"))["runs"]
    assert len(run["results"]) == 5000
    assert run["results"][0]["partialFingerprints"] == {"tcready/v1": "last"}
    told = [note["message"]["text"] for note in run["invocations"][0]["toolExecutionNotifications"]]
    assert "1 lighter results are left out: 5000 are shown at most" in told


@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["lf", "crlf"])
def test_a_sarif_fix_makes_of_the_old_text_the_new_one(end: str) -> None:
    old = "".join(f"line {n}{end}" for n in range(1, 41))
    edits = (
        Edit("model.py", 3, 6, 3, 7, f"three{end}and more"),
        Edit("model.py", 30, 1, 32, 1, ""),
        Edit("other.py", 1, 1, 1, 1, f"import torch{end}"),
    )
    fixed = dataclasses.replace(own("broken")[0], path="model.py", fix=Fix("try it", False, None, None, edits))
    made = dataclasses.replace(sample("broken"), findings=(fixed,))
    (result,) = json.loads(render(made, "sarif"))["runs"][0]["results"]
    change, elsewhere = result["fixes"][0]["artifactChanges"]
    assert (change["artifactLocation"]["uri"], elsewhere["artifactLocation"]["uri"]) == ("model.py", "other.py")
    lines = old.splitlines(keepends=True)
    starts = [sum(map(len, lines[:number])) for number in range(len(lines) + 1)]
    new = old
    for replacement in reversed(change["replacements"]):
        region = replacement["deletedRegion"]
        first = starts[region["startLine"] - 1] + region["startColumn"] - 1
        last = starts[region["endLine"] - 1] + region["endColumn"] - 1
        new = new[:first] + replacement["insertedContent"]["text"] + new[last:]
    assert new == apply_edits(old, edits[:2])
    assert f"line three{end}and more{end}" in new
    assert len(change["replacements"]) == 2


def test_a_new_text_is_no_place_for_shortened_paths() -> None:
    """What stands in the code that is put in is left as it is: it may be a path that the code opens."""
    edit = Edit("model.py", 1, 1, 1, 1, "open('/home/somebody/data.bin')\n")
    fixed = dataclasses.replace(own("broken")[0], fix=Fix("try it", False, None, None, (edit,)))
    log = json.loads(render(dataclasses.replace(sample("broken"), findings=(fixed,)), "sarif"))
    (change,) = log["runs"][0]["results"][0]["fixes"][0]["artifactChanges"]
    assert change["replacements"][0]["insertedContent"]["text"] == edit.new_text


def test_what_only_a_run_showed_has_a_rule_of_its_own() -> None:
    seen = [f for f in own("broken") if f.rule is None]
    assert seen, "the sample has one"
    (run,) = json.loads(render(sample("broken"), "sarif"))["runs"]
    rules = {rule["id"]: rule for rule in run["tool"]["driver"]["rules"]}
    for item in seen:
        assert rules[f"run-{item.effect.replace('_', '-')}"]["help"]["text"]


def test_what_only_a_run_showed_carries_the_advice_on_its_type() -> None:
    """Two types of break are two rules, each with what is said of it; so is a recompilation, which has no type."""
    seen = next(f for f in own("broken") if f.rule is None)
    codes = ("GB0007", "GB0059", "recompile")
    found = tuple(dataclasses.replace(seen, advice=code, line=at, fingerprint=code) for at, code in enumerate(codes, 1))
    texts = tuple(RuleText(code, "a-page", "s", f"why {code}", "instead", None, None) for code in codes)
    made = dataclasses.replace(sample("broken"), findings=found, advice=texts)
    (run,) = json.loads(render(made, "sarif"))["runs"]
    rules = {rule["id"]: rule["help"]["text"] for rule in run["tool"]["driver"]["rules"]}
    assert rules == {f"run-{code}": f"why {code}\n\nUse instead: instead" for code in codes}


@pytest.mark.parametrize("form", FORMS)
def test_installed_packages_are_nobodys_diff(form: str) -> None:
    made = sample("third_party")
    path = next(f.path for f in made.findings if f.origin == "third_party")
    assert path not in render(made, form)
    assert path in render(made, form, third_party=True)


def test_github_commands_are_one_line_each_and_escaped() -> None:
    odd = dataclasses.replace(own("broken")[0], path="a,b:c.py", message="50 %\r\n::error::no", level="note")
    text = render(dataclasses.replace(sample("broken"), findings=(odd,), skipped=()), "github")
    assert text.count("\n") == 1
    assert text.startswith("::notice file=a%2Cb%3Ac.py,line=")
    assert "50 %25%0D%0A::error::no" in text
    heaviest = [line.split(" ")[0] for line in render(sample("broken"), "github").splitlines()]
    weights = [("::error", "::warning", "::notice").index(word) for word in heaviest]
    assert weights == sorted(weights)


def test_gitlab_fingerprints_are_unique() -> None:
    one = own("broken")[0]
    made = dataclasses.replace(sample("broken"), findings=(one, dataclasses.replace(one, line=one.line + 1)))
    entries = json.loads(render(made, "gitlab"))
    assert len({entry["fingerprint"] for entry in entries}) == 2
    assert set(entries[0]) == {"check_name", "description", "fingerprint", "severity", "location"}
    assert entries[0]["location"]["lines"]["begin"] == one.line


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_junit_is_xml_whose_numbers_add_up(name: str) -> None:
    root = ET.fromstring(render(sample(name), "junit"))
    for suite in root.iter("testsuite"):
        cases = suite.findall("testcase")
        assert int(suite.get("tests", "")) == len(cases)
        assert int(suite.get("failures", "")) == len(suite.findall("testcase/failure"))
        assert int(suite.get("errors", "")) == len(suite.findall("testcase/error"))
    failed = [case for case in root.iter("testcase") if case.get("file") and case.find("failure") is not None]
    assert len(failed) == sum(f.level != "note" for f in own(name))


def test_a_stage_that_did_not_run_is_no_pass_in_junit() -> None:
    root = ET.fromstring(render(sample("broken"), "junit"))
    states = {c.get("name"): [child.tag for child in c] for c in root.iter("testcase") if not c.get("file")}
    made = sample("broken").targets[0]
    for stage in made.stages:
        expected = {"pass": [], "fail": ["failure"], "not_run": ["skipped"]}[stage.state]
        assert states[stage.stage] == expected


def test_markdown_is_short_and_folds_the_rest() -> None:
    one = own("broken")[0]
    many = tuple(dataclasses.replace(one, line=n, fingerprint=f"n{n}") for n in range(1, 3001))
    text = render(dataclasses.replace(sample("broken"), findings=many), "markdown")
    assert len(text) < 65536
    table, _, rest = text.partition("<details>")
    assert len(re.findall(r"^\| `", table, re.MULTILINE)) == 10
    assert "2990 more" in rest
    assert "cut: the HTML report has all of it" in rest


def test_markdown_reads_nothing_in_what_it_shows() -> None:
    odd = dataclasses.replace(
        own("broken")[0], message="<script>alert(1)</script> @all | [x](http://e.vil) `code` *b*", path="a`b|c.py"
    )
    text = render(dataclasses.replace(sample("broken"), findings=(odd,)), "markdown")
    assert "<script" not in text
    assert "\\@all" in text
    assert "\\| \\[x\\]\\(http://e.vil\\)" in text
    assert f"`a'b\\|c.py:{odd.line}`" in text
    row = next(line for line in text.splitlines() if "a'b" in line)
    assert len(re.findall(r"(?<!\\)\|", row)) == 4


def test_an_empty_report_has_every_format() -> None:
    for form in FORMS:
        render(report(), form)


def test_findings_in_packages_never_stand_on_a_line_of_the_diff() -> None:
    made = sample("third_party")
    assert "::error" not in render(made, "github")
    asked = render(made, "github", third_party=True)
    assert "::error" in asked
    assert "file=" not in asked
    places = [
        result["locations"][0]["physicalLocation"]["artifactLocation"]
        for result in json.loads(render(made, "sarif", third_party=True))["runs"][0]["results"]
    ]
    assert places
    assert all("uriBaseId" not in place for place in places)


def test_a_file_outside_of_the_working_folder_is_none_of_the_repository() -> None:
    made = dataclasses.replace(
        sample("broken"),
        findings=tuple(dataclasses.replace(f, path="/srv/other/model.py") for f in sample("broken").findings),
    )
    assert "file=model" not in render(made, "github")
    assert json.loads(render(made, "gitlab")) == []
    result = json.loads(render(made, "sarif"))["runs"][0]["results"][0]
    assert "uriBaseId" not in result["locations"][0]["physicalLocation"]["artifactLocation"]


def test_markdown_shows_what_to_compile_and_folds_what_else_was_tried() -> None:
    text = render(sample("planned"), "markdown")
    shown, _, folded = text.partition("<details><summary>Placements that were tried</summary>")
    assert "recommended: the whole model: 92.0% of the operations run in graphs" in shown
    assert "```python\nmodel.compile()\n```" in shown
    assert "| **the whole model** | 92 % | 97 % | 3 | 0 | 1.3 s \\(eager\\) | same |" in folded
    assert "out: raised: RuntimeError" in folded
    assert 'torch.compiler.set_stance("force_eager")\n```' in folded
    assert "Not done: the budget was spent" in folded


def test_no_code_of_a_plan_ends_its_block() -> None:
    text = render(sample("hostile"), "markdown")
    assert "````python\n```\n</script>" in text
