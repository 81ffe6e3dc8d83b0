"""The lines that carry compiled code: that they are code, and what they say. tests/dynamic runs them."""

from __future__ import annotations

import ast
import itertools

import pytest
from tcready.dynamic.worker.bench.carry_lines import as_function, files_of, lines_of
from tcready.schema.bench import CarryWay

WAYS: tuple[CarryWay, ...] = ("cache_artifacts", "aot_compile", "precompile")
CONTEXTS = ((), ("torch.no_grad()",), ("torch.no_grad()", 'torch.autocast("cuda", torch.bfloat16)'))


@pytest.mark.parametrize(("way", "contexts", "is_module"), list(itertools.product(WAYS, CONTEXTS, (True, False))))
def test_the_lines_of_each_way_are_code_for_given_names(
    way: CarryWay, contexts: tuple[str, ...], is_module: bool
) -> None:
    lines = lines_of(way, is_module=is_module, contexts=contexts, arm="model = torch.compile(model)", stem="there/own")
    bound = {"torch", "model", "args", "kwargs", "open"}
    for code in (lines.save, lines.start, as_function(lines.call)):
        names = {each.id for each in ast.walk(ast.parse(code)) if isinstance(each, ast.Name)}
        stored = {
            each.id
            for each in ast.walk(ast.parse(code))
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
        }
        assert names <= bound | stored | {"compiled"}
    assert all(f'"{name}"' in lines.save and f'"{name}"' in lines.load for name in files_of(way, "there/own"))
    assert all(context in lines.save and context in lines.call for context in contexts)


def test_a_setting_comes_first_and_only_where_code_is_compiled() -> None:
    setting = "torch._dynamo.config.enable_aot_compile = True"
    lines = lines_of("aot_compile", is_module=True, settings=(setting,))
    assert lines.save.startswith(f"{setting}\ncompiled = torch.compile(model.forward, fullgraph=True)")
    assert setting not in lines.start
    assert "compiled(model, *args, **kwargs)" in lines.call
    assert "compiled(*args, **kwargs)" in lines_of("aot_compile", is_module=False).call


def test_a_function_of_the_lines_returns_their_output() -> None:
    names: dict[str, object] = {"compiled": lambda *args, **kwargs: (args, kwargs), "model": "m"}
    exec(as_function(lines_of("aot_compile", is_module=True).call), names)
    call = names["call"]
    assert callable(call)
    assert call(1, b=2) == (("m", 1), {"b": 2})
