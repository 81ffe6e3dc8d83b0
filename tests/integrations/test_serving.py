"""`check --serving vllm`, on a small package with code of the same shapes: it is read, and never imported."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from textwrap import dedent

import jsonschema
import pytest
from tcready import api
from tcready.integrations.vllm import NOT_INSTALLED, read_engine
from tcready.schema.codec import from_json
from tcready.schema.enums import TcreadyError
from tcready.schema.report import Report
from tcready.schema.serving import ServedFinding, Serving

ROOT = Path(__file__).resolve().parents[2]
ENGINE = ROOT / "fixtures" / "serving"
SCHEMAS = [
    json.loads(path.read_text("utf-8"))
    for path in (ROOT / "docs" / "schema" / "report.schema.json", ROOT / "fixtures" / "report.schema.json")
]


def checked(*targets: str, root: Path = ENGINE, **options: object) -> Report:
    return api.check(targets, run=False, serving="vllm", root=root, low=True, **options)  # type: ignore[arg-type]


def serving_of(report: Report) -> Serving:
    assert report.serving is not None
    return report.serving


def judged(report: Report, comment: str) -> ServedFinding:
    """What is said of the finding on the line with that comment."""
    (place,) = [
        (source.path, number)
        for source in report.sources
        for number, text in enumerate(source.text.splitlines(), 1)
        if text.endswith(f"# {comment}")
    ]
    (finding,) = [each for each in report.findings if (each.path, each.line) == place]
    return next(each for each in serving_of(report).findings if each.fingerprint == finding.fingerprint)


@pytest.fixture(scope="module", name="report")
def of_the_net() -> Report:
    return checked("vllm/models/net.py", "vllm/layers/attention.py::attend", "vllm/layers/norm.py::Norm.forward_cuda")


def test_what_is_decorated_split_and_registered(report: Report) -> None:
    found = serving_of(report)
    assert (found.engine, found.version, found.installed) == ("vllm", "9.8.7", True)
    assert (found.whole_graph, found.drops_guards, found.unread) == (True, True, ())
    assert found.splitting == ("vllm::attend", "vllm::attend_to_part"), "no other list of the settings is one"
    inner, left = found.classes
    assert (inner.name, inner.dynamic) == ("Inner", (("tokens", "0"), ("positions", "-1")))
    assert inner.enable_if == "lambda config: config.mode == 3"
    assert (left.name, left.dynamic, left.ignored) == ("Left", (("tokens", "0"),), True)
    assert [(each.name, each.fake, each.splits) for each in found.operators] == [
        ("vllm::attend", True, True),
        ("vllm::count", False, False),
    ]


@pytest.mark.parametrize(
    ("comment", "state", "reason", "by"),
    [
        ("compiled whole", "hit", "whole_graph", "Inner"),
        ("a bound on a size", "hit", "guards_dropped", "Inner"),
        ("once for each token", "hit", "sizes_marked", "Inner"),
        ("around what is compiled", "not_compiled", "not_decorated", ""),
        ("taken back", "not_compiled", "not_enabled", "Left"),
        ("inside of the operator", "handled", "splitting_operator", "vllm::attend"),
        ("a kernel's own check", "handled", "other_forward", "Norm.forward_cuda"),
    ],
)
def test_what_is_made_of_each_finding(report: Report, comment: str, state: str, reason: str, by: str) -> None:
    found = judged(report, comment)
    assert (found.state, found.reason, found.by) == (state, reason, by)


def test_a_call_of_an_operator_that_is_registered_there(tmp_path: Path) -> None:
    """The registration is in no file that the user's reads."""
    shutil.copytree(ENGINE / "vllm", tmp_path / "vllm")
    (tmp_path / "model.py").write_text(
        dedent("""\
            import torch
            from torch import nn
            from vllm.compilation.decorators import support_torch_compile


            @support_torch_compile
            class Mine(nn.Module):
                def forward(self, x: torch.Tensor):
                    x = torch.ops.vllm.attend(x)
                    return torch.ops.vllm.count(x)
        """)
    )
    report = checked("model.py", root=tmp_path)
    found = {each.line: serving_of(report).findings[index] for index, each in enumerate(report.findings)}
    assert {line: (each.state, each.reason, each.by) for line, each in found.items()} == {
        9: ("handled", "calls_splitting", "vllm::attend"),
        10: ("hit", "whole_graph", "Mine"),
    }, "the user's own classes are decorated as the engine's are; what has no fake implementation stays a break"


def test_the_report_in_every_form(report: Report) -> None:
    shown = json.loads(api.render(report, "json"))
    for schema in SCHEMAS:
        jsonschema.validate(shown, schema)
    assert from_json(Report, shown).serving == report.serving
    text = api.render(report, "text", width=240)
    assert "vllm 9.8.7: 2 decorated classes, with fullgraph=True, guards dropped; 2 splitting operators" in text
    assert "of 9 findings: 4 handled, 3 hit, 2 not compiled" in api.render(report, "text", width=240, verbose=True)
    assert "Inner is compiled with fullgraph=True: the break is an error when the engine starts" in text
    page = api.render(report, "html")
    assert 'id="serving"' in page
    assert "it runs eagerly there" in page


def test_an_engine_that_is_not_installed(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(
        dedent("""\
            from torch import nn


            class Net(nn.Module):
                def forward(self, x):
                    return x
        """)
    )
    told: list[str] = []
    report = checked("model.py", root=tmp_path, announce=told.append)
    assert told == [NOT_INSTALLED]
    assert serving_of(report) == Serving("vllm", None, False)
    assert NOT_INSTALLED in api.render(report, "text", width=200)


def test_another_engine_is_refused() -> None:
    with pytest.raises(TcreadyError, match="vllm"):
        api.check("vllm/models/net.py", run=False, root=ENGINE, serving="another")


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    shutil.copytree(ENGINE / "vllm", tmp_path / "vllm")
    (tmp_path / "vllm" / "broken.py").write_text("@support_torch_compile\nclass (:\n")
    (tmp_path / "vllm" / "config" / "compilation.py").unlink()
    wrapper = tmp_path / "vllm" / "compilation" / "wrapper.py"
    wrapper.write_text(wrapper.read_text().replace("fullgraph=True", "fullgraph=envs.WHOLE"))
    found = read_engine(tmp_path / "vllm", {}, tmp_path)
    assert found.unread == (
        "vllm/broken.py: SyntaxError",
        "no list of splitting operators was found in a class CompilationConfig",
        "whether it compiles with fullgraph is decided as it runs: envs.WHOLE",
    )
    assert found.whole_graph is None


DECORATED = """\
import functools
import torch
from torch import nn
import vllm.compilation.decorators as d
from vllm.compilation.decorators import ignore_torch_compile
from vllm.compilation.decorators import support_torch_compile
from vllm.compilation.decorators import support_torch_compile as renamed

stored = support_torch_compile(dynamic_arg_dims={"x": 0})
DIMS = {"x": 1}


class Plain(nn.Module):
    def forward(self, x: torch.Tensor, rest: list[torch.Tensor] | None = None):
        if x.max() > 9:  # inherited
            x = x + 1
        return x

    def alone(self, x):
        return x + 1 if x.max() > 5 else x  # called by itself


@renamed
class Renamed(Plain): ...
@d.support_torch_compile(dynamic_arg_dims=dict(x=0))
class Dotted(Plain): ...
@stored
class Stored(Plain): ...
class Later(Plain): ...
Later = support_torch_compile(Later)
@functools.partial(support_torch_compile, dynamic_arg_dims=DIMS)
class Partial(Plain): ...
@support_torch_compile(dynamic_arg_dims=dims())
class Computed(Plain): ...
class Child(Partial): ...
@ignore_torch_compile
class Left(Child): ...
class LeftToo(Left): ...
@support_torch_compile
class Again(Left): ...
@support_torch_compile
@ignore_torch_compile
class Last(Plain): ...
@(lambda cls: support_torch_compile(cls))
class Lambda(Plain): ...
class OfLambda(Lambda): ...
def helper(cls):
    return support_torch_compile(cls)
@helper
class Helped(Plain): ...
class Sometimes(Plain): ...
if DIMS:
    support_torch_compile(Sometimes)


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Renamed()

    def forward(self, x):
        return self.inner.alone(x)
"""


@pytest.fixture(scope="module", name="spelled")
def in_other_spellings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("spelled")
    shutil.copytree(ENGINE / "vllm", folder / "vllm")
    (folder / "vllm" / "models" / "spelled.py").write_text(DECORATED)
    (folder / "mine.py").write_text(
        dedent("""\
            from vllm.models.spelled import Partial as Base


            class Mine(Base):
                def forward(self, y):
                    return y + 1 if y.max() > 9 else y  # of an imported class
        """)
    )
    return folder


def test_decorators_in_other_spellings_and_those_of_classes_above(spelled: Path) -> None:
    found = {each.name: each for each in read_engine(spelled / "vllm", {}, spelled).classes}
    for name in ("Renamed", "Dotted", "Stored", "Later", "Again", "Last"):
        each = found[name]
        assert (each.ignored, each.inherits, each.unread, each.dynamic) == (False, "", "", (("x", "0"),)), name
    assert found["Partial"].dynamic == found["Child"].dynamic == (("x", "1"),)
    assert (found["Child"].inherits, found["Child"].ignored) == ("Partial", False)
    assert found["Left"].ignored
    assert found["LeftToo"].ignored, "what takes it back is inherited too"
    assert (found["Computed"].dynamic, found["Computed"].dynamic_unread) == ((), "dims()")
    assert [name for name, each in found.items() if each.unread] == ["Lambda", "OfLambda", "Helped", "Sometimes"]
    assert "Plain" not in found
    assert "Outer" not in found


def test_what_is_not_read_of_decorations_is_listed(spelled: Path) -> None:
    lines = DECORATED.splitlines()
    where = {text: f"vllm/models/spelled.py:{number}" for number, text in enumerate(lines, 1)}
    decided = "whether it is compiled is decided as it runs"
    assert read_engine(spelled / "vllm", {}, spelled).unread == (
        f"{where['class Computed(Plain): ...']} Computed: dynamic_arg_dims is decided as it runs: dims()",
        f"{where['class Lambda(Plain): ...']} Lambda: {decided}: lambda cls: support_torch_compile(cls)",
        f"{where['class Helped(Plain): ...']} Helped: {decided}: helper",
        f"{where['class Sometimes(Plain): ...']} Sometimes: {decided}: support_torch_compile(Sometimes)",
        f"{where['    return support_torch_compile(cls)']}: what support_torch_compile is used for",
    )


@pytest.mark.parametrize(
    ("name", "state", "reason", "by"),
    [
        ("Child", "hit", "whole_graph", "Child"),
        ("Later", "hit", "whole_graph", "Later"),
        ("LeftToo", "not_compiled", "not_enabled", "LeftToo"),
        ("OfLambda", "not_read", "decoration_unread", "OfLambda"),
        ("Plain", "not_compiled", "not_decorated", ""),
    ],
)
def test_a_forward_is_compiled_as_the_class_of_its_object_is(
    spelled: Path, name: str, state: str, reason: str, by: str
) -> None:
    report = checked(f"vllm/models/spelled.py::{name}", root=spelled)
    found = judged(report, "inherited")
    assert (found.state, found.reason, found.by) == (state, reason, by)
    shown = json.loads(api.render(report, "json"))
    for schema in SCHEMAS:
        jsonschema.validate(shown, schema)


def test_a_method_that_is_called_past_the_forward_runs_eagerly(spelled: Path) -> None:
    found = judged(checked("vllm/models/spelled.py::Outer", root=spelled), "called by itself")
    assert (found.state, found.reason) == ("not_compiled", "not_decorated")


def test_a_class_of_ones_own_inherits_it_from_the_engine(spelled: Path) -> None:
    report = checked("mine.py", root=spelled)
    found = judged(report, "of an imported class")
    assert (found.state, found.by) == ("hit", "Mine")
    (mine,) = [each for each in serving_of(report).classes if each.name == "Mine"]
    assert (mine.inherits, mine.dynamic) == ("Partial", ()), "its argument has another name, and is not marked"
