"""Regions over trees built by hand, and their code run on modules that torch would accept."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from tcready.merge.regions import dominator, predict_regions
from tcready.portable.compile_code import accessor, with_option
from tcready.schema.code_line import Frame
from tcready.schema.observation import ModuleShare
from tcready.schema.report import Region, covers
from tcready.schema.run import BreakSite, Recompile, SkippedFrame
from tcready.schema.static import StaticModule


def share(name: str, kind: str, ops: int | None = 10, line: int | None = None, **more: Any) -> ModuleShare:
    """A module whose forward stands at `line` of m.py, or is torch's own."""
    return ModuleShare(name, kind, ops, ops, path="m.py" if line else None, line=line, **more)


def site(*frames: tuple[str, int, str]) -> BreakSite:
    stack = tuple(Frame(*frame) for frame in frames)
    return BreakSite(stack[-1].path, stack[-1].line, stack[-1].symbol, "why", None, 1, "own", stack)


def named(found: Sequence[Region]) -> list[tuple[str, int]]:
    return [(region.name, region.instances) for region in found]


def transformer(layers: int = 3) -> tuple[ModuleShare, ...]:
    """Encoder of equal layers, each an attention and an MLP; forwards at lines 10, 30, 50, 70, 90."""
    found = [share("", "Net", 100, 10), share("embed", "Embedding", 4), share("encoder", "Encoder", 90, 30)]
    found.append(share("encoder.layer", "ModuleList", None))
    for index in range(layers):
        at = f"encoder.layer.{index}"
        found += [
            share(at, "Layer", 90 // layers, 50),
            share(f"{at}.attn", "Attention", 60 // layers, 70),
            share(f"{at}.attn.q", "Linear", 2),
            share(f"{at}.mlp", "MLP", 30 // layers, 90),
            share(f"{at}.mlp.fc", "Linear", 2),
        ]
    return tuple(found)


ROOT_BREAK = site(("m.py", 12, "Net.forward"))
ATTENTION_BREAK = site(
    ("m.py", 12, "Net.forward"),
    ("m.py", 33, "Encoder.forward"),
    ("m.py", 51, "Layer.forward"),
    ("m.py", 74, "Attention.forward"),
    ("m.py", 5, "helper"),
)


NET, BLOCK, OTHER = ("m.py", 12, "Net.forward"), ("m.py", 33, "Block.forward"), ("m.py", 40, "Other.forward")
HELPER, AGAIN = ("h.py", 5, "helper"), ("h.py", 9, "helper")


@pytest.mark.parametrize(
    ("stacks", "symbol"),
    [
        ([(NET, BLOCK, HELPER)], None),
        ([(NET,), (("m.py", 14, "Net.forward"),)], None),
        ([(NET, BLOCK), (NET, OTHER)], None),
        ([(NET, BLOCK, HELPER), (NET, BLOCK)], "Block.forward"),
        ([(NET, BLOCK, HELPER), (NET, BLOCK, OTHER)], "Block.forward"),
        ([(NET, BLOCK, HELPER), (NET, OTHER, AGAIN)], "helper"),
        ([(NET, BLOCK, HELPER), (NET, OTHER, AGAIN), (NET, BLOCK, OTHER)], None),
        ([(NET, HELPER, BLOCK, HELPER), (NET, AGAIN)], "helper"),
    ],
)
def test_the_dominator_is_what_no_way_to_a_break_leads_round(
    stacks: list[tuple[tuple[str, int, str], ...]], symbol: str | None
) -> None:
    found = dominator([site(*stack) for stack in stacks])
    assert (found.symbol if found else None) == symbol


def test_without_a_break_the_whole_model_is_one_region() -> None:
    found = predict_regions(transformer(), (), ())
    assert named(found) == [("", 1)]
    assert (found[0].code, found[0].ops_share, found[0].ops_captured_share) == ("model.compile()", 1.0, 1.0)


def test_a_break_belongs_to_the_innermost_module_and_its_ancestors_contain_it() -> None:
    assert named(predict_regions(transformer(), (), (), sites=(ROOT_BREAK,))) == [("encoder", 1)]
    found = predict_regions(transformer(), (), (), sites=(ATTENTION_BREAK,))
    assert named(found) == [("encoder.layer.*.mlp", 3)]
    assert found[0].ops_share == pytest.approx(0.3)
    assert found[0].code == "for module in model.encoder.layer:\n    module.mlp.compile()"


def test_equal_members_of_a_list_are_one_region_with_a_loop() -> None:
    found = predict_regions(
        transformer(4), (), (), sites=(site(("m.py", 11, "f.forward"), ("m.py", 31, "Encoder.forward")),)
    )
    assert named(found) == [("encoder.layer.*", 4)]
    assert found[0].code == "for module in model.encoder.layer:\n    module.compile()"


def test_a_break_in_a_helper_of_no_module_is_the_roots() -> None:
    assert named(predict_regions(transformer(), (), (), sites=(site(("m.py", 95, "helper")),))) == [("encoder", 1)]


def test_one_class_in_two_places_breaks_only_where_the_stack_went() -> None:
    modules = (
        share("", "Net", 20, 10),
        share("left", "Left", 10, 20),
        share("left.block", "Block", 5, 40),
        share("right", "Right", 10, 30),
        share("right.block", "Block", 5, 40),
    )
    stack = (("m.py", 11, "Net.forward"), ("m.py", 21, "Left.forward"), ("m.py", 41, "Block.forward"))
    assert named(predict_regions(modules, (), (), sites=(site(*stack),))) == [("right", 1)]


def test_the_end_of_a_forward_keeps_code_below_it_apart() -> None:
    below = site(("m.py", 12, "Net.forward"), ("m.py", 45, "Unregistered.forward"))
    modules = (share("", "Net", 20, 10), share("part", "Part", 18, 30))
    assert named(predict_regions(modules, (), (), sites=(below,))) == []
    ends = {("m.py", 10): 20, ("m.py", 30): 40}
    assert named(predict_regions(modules, (), (), sites=(below,), code_ends=ends)) == [("part", 1)]


def test_members_unlike_the_others_are_regions_of_their_own() -> None:
    modules = (
        share("", "Net", 60, 10),
        share("blocks", "ModuleList", None),
        *(share(f"blocks.{i}", "Block", 10, 20) for i in range(4)),
        share("blocks.1.down", "Down", 4, 30),
        share("blocks.4", "Last", 20, 40),
    )
    found = predict_regions(modules, (), (), sites=(ROOT_BREAK,))
    assert sorted(named(found)) == [("blocks.1", 1), ("blocks.4", 1), ("blocks.{0,2,3}", 3)]
    codes = {region.name: region.code for region in found}
    assert codes["blocks.1"] == "model.blocks[1].compile()"
    assert covers("blocks.{0,2,3}", "blocks.2")
    assert not covers("blocks.{0,2,3}", "blocks.1")


def test_a_list_is_never_a_region_since_it_has_no_forward() -> None:
    modules = (share("", "Net", 9, 10), share("heads", "ModuleDict", None), share("heads.a-b", "Head", 9, 20))
    found = predict_regions(modules, (), (), sites=(ROOT_BREAK,))
    assert [(r.name, r.code) for r in found] == [("heads.a-b", 'model.heads["a-b"].compile()')]
    assert named(predict_regions((share("", "ModuleList", 9), *modules[1:]), (), ())) == [("heads.a-b", 1)]


def test_small_regions_and_bare_modules_of_torch_are_left_out_where_there_is_more() -> None:
    modules = (
        share("", "Net", 1000, 10),
        share("big", "Body", 500, 20),
        share("tiny", "Tiny", 9, 30),
        share("fc", "Linear", 300),
        share("seq", "Sequential", 100),
        share("seq.0", "Linear", 50),
    )
    assert named(predict_regions(modules, (), (), sites=(ROOT_BREAK,))) == [("big", 1), ("seq", 1)]
    bare = (share("", "Net", 10, 10), share("fc", "Linear", 4), share("act", "ReLU", 6))
    assert named(predict_regions(bare, (), (), sites=(ROOT_BREAK,))) == [("act", 1), ("fc", 1)]


def test_few_operations_that_hold_much_of_the_time_are_a_region() -> None:
    modules = (
        share("", "Net", 1000, 10, seconds=1.0),
        share("many", "Many", 400, 20, seconds=0.1),
        share("heavy", "Heavy", 4, 30, seconds=0.65),
        share("tiny", "Tiny", 4, 40, seconds=0.001),
    )
    assert named(predict_regions(modules, (), (), sites=(ROOT_BREAK,))) == [("heavy", 1), ("many", 1)]


def test_shares_are_measured_over_all_instances() -> None:
    modules = (
        ModuleShare("", "Net", 100, 40, seconds=2.0, path="m.py", line=10),
        ModuleShare("layers", "ModuleList"),
        ModuleShare("layers.0", "Layer", 30, 30, seconds=0.5, path="m.py", line=20),
        ModuleShare("layers.1", "Layer", 30, 0, seconds=0.5, path="m.py", line=20),
    )
    (found,) = predict_regions(modules, (), (), sites=(ROOT_BREAK,))
    assert (found.name, found.ops_share, found.time_share, found.ops_captured_share) == ("layers.*", 0.6, 0.5, 0.5)
    assert "30 of their 60 operations" in found.reason


def test_a_lost_frame_and_a_steady_recompile_count_and_benign_ones_do_not() -> None:
    lost = SkippedFrame("m.py", 70, "Attention.forward", "loop", benign=False)
    helper = SkippedFrame("m.py", 80, "Attention.split", "loop", benign=False)
    steady = Recompile("m.py", 70, "Attention.forward", (), identical_call=True)
    for event in ({"skipped": (lost,)}, {"skipped": (helper,)}, {"recompiles": (steady,)}):
        assert named(predict_regions(transformer(), (), (), **event)) == [("encoder.layer.*.mlp", 3)]
    benign = SkippedFrame("m.py", 70, "Attention.forward", "no tensors", benign=True)
    other = Recompile("m.py", 70, "Attention.forward", ())
    assert named(predict_regions(transformer(), (), (), skipped=(benign,), recompiles=(other,))) == [("", 1)]


def static(name: str, kind: str, *breaks: str, line: int | None = 1, **more: Any) -> StaticModule:
    return StaticModule(name, kind, "m.py" if line else None, line, breaks, **more)


def test_static_breaks_reach_real_modules_by_name_pattern_or_by_code() -> None:
    by_name = (static("encoder.layer.*.attn", "Attention", "f1", line=None),)
    assert named(predict_regions(transformer(), by_name, {"f1"})) == [("encoder.layer.*.mlp", 3)]
    assert named(predict_regions(transformer(), by_name, {"other"})) == [("", 1)]
    by_code = {("m.py", 70): ("f1",)}
    assert named(predict_regions(transformer(), (), {"f1"}, breaks_by_code=by_code)) == [("encoder.layer.*.mlp", 3)]
    another_class = (static("encoder.layer.*.attn", "FlashAttention", "f1", line=None),)
    assert named(predict_regions(transformer(), another_class, {"f1"})) == [("", 1)]
    deeper = (static("encoder.*", "Layer", "f1"),)
    assert named(predict_regions(transformer(), deeper, {"f1"})) == [("", 1)]


STATIC = (
    static("", "Net", line=10),
    static("embed", "Embedding", line=None),
    static("encoder", "Encoder", line=30),
    static("encoder.layer", "ModuleList", line=None),
    static("encoder.layer.*", "Layer", line=50),
    static("encoder.layer.*.attn", "Attention", "f1", line=70),
    static("encoder.layer.*.mlp", "MLP", line=90),
    static("encoder.layer.*.mlp.act", "GELU", line=None),
)


def test_from_the_source_alone_a_list_counts_once_and_bare_torch_is_left_out() -> None:
    assert named(predict_regions((), STATIC, ())) == [("", 1)]
    (found,) = predict_regions((), STATIC, {"f1"})
    assert (found.name, found.instances, found.ops_share) == ("encoder.layer.*.mlp", 0, None)
    assert found.code == "for module in model.encoder.layer:\n    module.mlp.compile()"
    assert found.reason == (
        "in each member of model.encoder.layer, the source does not show how many: no break predicted in 2 modules"
    )


def test_from_the_source_a_module_that_calls_the_unknown_is_in_no_region() -> None:
    modules = (
        static("", "Net", line=10),
        static("body", "Body", line=30, unknown=("self.backbone",)),
        static("body.neck", "Neck", line=40),
        static("head", "Head", line=50),
    )
    assert named(predict_regions((), modules, ())) == [("body.neck", 1), ("head", 1)]


def test_from_the_source_no_code_is_told_over_what_may_not_be_there() -> None:
    modules = (
        static("", "Net", "f1"),
        static("neck", "Neck", line=40, sure=False),
        static("neck.inner", "Block", line=45, sure=False),
        static("head", "Head", line=50),
    )
    assert named(predict_regions((), modules, {"f1"})) == [("head", 1)]


def test_from_the_source_bare_torch_is_named_where_there_is_nothing_else() -> None:
    modules = (static("", "Net", "f1"), static("fc", "Linear", line=None))
    assert named(predict_regions((), modules, {"f1"})) == [("fc", 1)]
    assert predict_regions((), (), ()) == ()


class Fake:
    """Enough of a module tree to run a region's code: attributes, indices, keys, get_submodule, compile."""

    def __init__(self, tree: dict[str, str], at: str = "", compiled: list[str] | None = None) -> None:
        self.tree, self.at = tree, at
        self.compiled: list[str] = [] if compiled is None else compiled

    def get_submodule(self, name: str) -> Fake:
        full = f"{self.at}.{name}" if self.at else name
        if full not in self.tree:
            raise AttributeError(full)
        return Fake(self.tree, full, self.compiled)

    __getattr__ = get_submodule

    def __getitem__(self, key: object) -> Fake:
        assert self.tree[self.at] in ("ModuleList", "Sequential", "ModuleDict")
        return self.get_submodule(str(key))

    def values(self) -> Iterator[Fake]:
        depth = self.at.count(".") + 1 if self.at else 0
        below = [n for n in self.tree if n and n.count(".") == depth and n.startswith(f"{self.at}." if self.at else "")]
        return iter([Fake(self.tree, name, self.compiled) for name in below])

    __iter__ = values

    def compile(self) -> None:
        self.compiled.append(self.at)

    def __setattr__(self, name: str, value: object) -> None:
        if name == "forward":
            self.compiled.append(self.at)
        else:
            object.__setattr__(self, name, value)

    @property
    def forward(self) -> None:
        return None


TORCH = SimpleNamespace(compile=lambda forward: forward)

ODD = (
    share("", "Net", 100, 10),
    share("stages", "ModuleList", None),
    share("stages.0", "Stage", 20, 20),
    share("stages.0.blocks", "Sequential", 20),
    share("stages.0.blocks.0", "Block", 10, 30),
    share("stages.0.blocks.1", "Block", 10, 30),
    share("stages.1", "Stage", 20, 20),
    share("stages.1.blocks", "Sequential", 20),
    share("stages.1.blocks.0", "Block", 10, 30),
    share("stages.1.blocks.1", "Block", 10, 30),
    share("heads", "ModuleDict", None),
    share("heads.class", "Head", 10, 40),
    share("odd", "Odd", 30, 50),
    share("odd.0", "Piece", 10, 60),
    share("odd.import", "Piece", 10, 60),
    share("odd.a-b", "Piece", 10, 60),
)


def compiled_by(region: Region, modules: Sequence[ModuleShare]) -> list[str]:
    """What a region's code compiles in a stand-in tree."""
    model = Fake({module.name: module.type for module in modules})
    exec(compile(ast.parse(region.code), "<region>", "exec"), {"model": model, "torch": TORCH})
    return model.compiled


MIXED = (
    share("", "Net", 100, 10),
    share("stages", "ModuleList", None),
    *(
        module
        for stage, kinds in enumerate(("GBG", "GGB"))
        for module in (
            share(f"stages.{stage}", "Stage", 40, 20),
            share(f"stages.{stage}.blocks", "ModuleList", None),
            *(
                share(f"stages.{stage}.blocks.{at}", *(("Good", 10, 30) if kind == "G" else ("Bad", 10, 40)))
                for at, kind in enumerate(kinds)
            ),
        )
    ),
)


def test_in_a_list_of_several_classes_only_those_that_do_not_break_are_compiled() -> None:
    lost = tuple(SkippedFrame("m.py", line, "x.forward", "r", benign=False) for line in (10, 20, 40))
    (found,) = predict_regions(MIXED, (), (), skipped=lost)
    good = [module.name for module in MIXED if module.type == "Good"]
    assert compiled_by(found, MIXED) == good
    assert [module.name for module in MIXED if covers(found.name, module.name)] == good
    assert found.instances == 4
    assert "4 of the 6 modules at stages.*.blocks.*, those of class Good" in found.reason


def test_several_classes_of_one_list_are_regions_of_their_own() -> None:
    lost = tuple(SkippedFrame("m.py", line, "x.forward", "r", benign=False) for line in (10, 20))
    found = predict_regions(MIXED, (), (), skipped=lost)
    assert [(region.instances, compiled_by(region, MIXED)) for region in found] == [
        (len(names), names)
        for kind in ("Good", "Bad")
        if (names := [module.name for module in MIXED if module.type == kind])
    ]
    assert not any(covers(found[0].name, name) for name in compiled_by(found[1], MIXED))


def test_equal_places_in_equal_stages_are_named_by_their_positions() -> None:
    modules = tuple(m for m in MIXED if m.name not in ("stages.0.blocks.2", "stages.1.blocks.2"))
    even = tuple(
        dataclasses.replace(m, type="Bad", line=40) if m.name.endswith(".1") and m.type != "Stage" else m
        for m in modules
    )
    lost = tuple(SkippedFrame("m.py", line, "x.forward", "r", benign=False) for line in (10, 20, 40))
    (found,) = predict_regions(even, (), (), skipped=lost)
    assert (found.name, found.instances) == ("stages.*.blocks.0", 2)
    assert compiled_by(found, even) == ["stages.0.blocks.0", "stages.1.blocks.0"]


def test_a_loop_is_not_written_over_members_that_lack_the_part() -> None:
    modules = (
        share("", "Net", 100, 10),
        share("layers", "ModuleList", None),
        *(share(f"layers.{at}", "Layer", 20, 20) for at in range(3)),
        *(share(f"layers.{at}.mlp", "MLP", 15, 30) for at in (0, 2)),
    )
    lost = tuple(SkippedFrame("m.py", line, "x.forward", "r", benign=False) for line in (10, 20))
    (found,) = predict_regions(modules, (), (), skipped=lost)
    assert compiled_by(found, modules) == ["layers.0.mlp", "layers.2.mlp"]


def test_classes_of_one_name_whose_code_differs_are_told_apart() -> None:
    modules = (
        share("", "Net", 100, 10),
        share("layers", "ModuleList", None),
        *(share(f"layers.{at}", "Layer", 20, line) for at, line in enumerate((20, 30, 20))),
    )
    found = predict_regions(modules, (), (), sites=(ROOT_BREAK,))
    assert named(found) == [("layers.{0,2}", 2), ("layers.1", 1)]


def test_from_the_source_a_place_in_every_member_of_a_list_is_reached_by_a_loop() -> None:
    modules = (
        static("", "Net", "f1"),
        static("stages", "ModuleList", line=None),
        static("stages.*", "Stage", "f1"),
        static("stages.*.blocks", "ModuleList", line=None),
        static("stages.*.blocks.0", "Good"),
        static("stages.*.blocks.1", "Bad", "f1"),
    )
    (found,) = predict_regions((), modules, {"f1"})
    assert found.code == "for module in model.stages:\n    module.blocks[0].compile()"


@pytest.mark.parametrize("broken", [{10}, {10, 20}, {10, 50}, {10, 20, 30}, {10, 20, 40, 50}, {10, 30}])
def test_the_code_of_every_region_compiles_just_its_instances(broken: set[int]) -> None:
    """The region's code is executed on a stand-in tree: names that are digits, keywords or no identifiers."""
    lost = tuple(SkippedFrame("m.py", line, "x.forward", "r", benign=False) for line in broken)
    found = predict_regions(ODD, (), (), skipped=lost)
    compiled = []
    for region in found:
        pasted = compiled_by(region, ODD)
        assert len(pasted) == region.instances
        assert all(covers(region.name, name) for name in pasted)
        compiled += pasted
    assert len(set(compiled)) == len(compiled)
    lines = {module.name: module.line for module in ODD}
    assert not {name for name in compiled if lines[name] in broken}
    free = {name for name, line in lines.items() if line and line not in broken}
    tops = {name for name in free if not any(lines[a] in broken for a in lines if a.startswith(f"{name}."))}
    expected = {name for name in tops if not any(name.startswith(f"{top}.") for top in tops)}
    sequences = {f"stages.{i}.blocks" for i in (0, 1)}
    assert set(compiled) - sequences >= expected - {n for n in expected if n.rpartition(".")[0] in compiled}


def test_accessors_are_python_for_any_name() -> None:
    types = {"blocks": "ModuleList", "heads": "ModuleDict"}
    assert accessor("", types) == "model"
    assert accessor("blocks.0.fc", types) == "model.blocks[0].fc"
    assert accessor('heads.a"b', types) == 'model.heads["a\\"b"]'
    assert accessor("a.b-c", types) == 'model.get_submodule("a.b-c")'
    assert accessor("class", types) == 'model.get_submodule("class")'
    assert accessor("custom.0", types) == 'model.get_submodule("custom.0")'


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("model.compile()", "model.compile(recompile_limit=64)"),
        ("    module.compile()", "    module.compile(recompile_limit=64)"),
        (
            'model.get_submodule("a-b").forward = torch.compile(model.get_submodule("a-b").forward)',
            'model.get_submodule("a-b").forward = torch.compile(model.get_submodule("a-b").forward, recompile_limit=64)',
        ),
        (
            "model = torch.compile(model)  # model: the function `plain`",
            "model = torch.compile(model, recompile_limit=64)  # model: the function `plain`",
        ),
        ("for module in model.layers:", "for module in model.layers:"),
        ("model.f = torch.compiler.disable(model.f)", "model.f = torch.compiler.disable(model.f)"),
        ("torch._dynamo.config.capture_scalar_outputs = True", "torch._dynamo.config.capture_scalar_outputs = True"),
    ],
)
def test_an_option_goes_into_each_call_that_compiles(line: str, expected: str) -> None:
    assert with_option(line, "recompile_limit=64") == expected
    assert with_option(f"{line}\n{line}", "recompile_limit=64") == f"{expected}\n{expected}"
