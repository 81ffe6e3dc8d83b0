"""The lines of code that carry compiled code to another process. They are measured as they are shown."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, replace

from tcready.schema.bench import CarryWay

STEM = "model"
"""The beginning of the names of files in lines that are shown."""


@dataclass(frozen=True)
class CarryLines:
    """The lines of one way, for `torch`, a `model`, and the `args` and `kwargs` of a call."""

    save: str
    """In the process that compiles: compile for these inputs, and write files."""
    load: str
    """In another process: read the files. `compiled` is what the next lines call."""
    call: str
    """Every call there; `output` is its result."""

    @property
    def start(self) -> str:
        """Return all lines of the other process."""
        return f"{self.load}\n{self.call}"


def lines_of(
    way: CarryWay,
    *,
    is_module: bool,
    contexts: tuple[str, ...] = (),
    settings: tuple[str, ...] = (),
    arm: str = "",
    stem: str = STEM,
) -> CarryLines:
    """Return the lines of a way.

    Args:
        way: The way.
        is_module: Whether `model` is a module; otherwise it is a function.
        contexts: The expressions of the contexts of each call, such as `torch.no_grad()`.
        settings: Lines that this torch needs before it can compile that way.
        arm: For artifacts of the caches, the lines that compile `model`.
        stem: The beginning of the names of the files.
    """
    files = tuple(f'"{each}"' for each in files_of(way, stem))
    if way == "aot_compile":
        compiled = "model.forward" if is_module else "model"
        arguments = "model, *args, **kwargs" if is_module else "*args, **kwargs"
        lines = CarryLines(
            within(contexts, f"compiled = torch.compile({compiled}, fullgraph=True).aot_compile((args, kwargs))")
            + f"\ncompiled.save_compiled_function({files[0]})",
            f'with open({files[0]}, "rb") as file:\n    compiled = torch.compiler.load_compiled_function(file)',
            within(contexts, f"output = compiled({arguments})"),
        )
    elif way == "precompile":
        given = "model, args, kwargs" if is_module else "args, kwargs"
        lines = CarryLines(
            "capture = torch.compiler.precompile.capture(\n"
            f"    lambda {given}: model(*args, **kwargs),\n"
            f"    artifact_path={files[0]},\n"
            f"    cache_path={files[1]},\n"
            ")\n" + within((*contexts, "capture"), f"output = capture({given})"),
            f"compiled = torch.compiler.precompile.load({files[0]}, {files[1]})",
            within(contexts, f"output = compiled({given})"),
        )
    else:
        call = within(contexts, "output = model(*args, **kwargs)")
        lines = CarryLines(
            f'{arm}\n{call}\nwith open({files[0]}, "wb") as file:\n'
            "    file.write(torch.compiler.save_cache_artifacts()[0])",
            f'with open({files[0]}, "rb") as file:\n    torch.compiler.load_cache_artifacts(file.read())\n{arm}',
            call,
        )
    return replace(lines, save="\n".join((*settings, lines.save)))


def files_of(way: CarryWay, stem: str = STEM) -> tuple[str, ...]:
    """Return the names of the files of a way."""
    if way == "precompile":
        return f"{stem}_precompiled.py", f"{stem}_precompiled.cache"
    return (f"{stem}.aot" if way == "aot_compile" else f"{stem}.artifacts",)


def within(contexts: tuple[str, ...], line: str) -> str:
    """Return a line within contexts; as it is if there are none."""
    return f"with {', '.join(contexts)}:\n{textwrap.indent(line, '    ')}" if contexts else line


def as_function(call: str, name: str = "call") -> str:
    """Return the definition of a function of the inputs that runs the lines of a call and returns its output."""
    return f"def {name}(*args, **kwargs):\n{textwrap.indent(call, '    ')}\n    return output"
