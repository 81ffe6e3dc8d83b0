"""Targets and rules to a StaticResult: reads, interprets, lets rules judge, and makes findings of claims."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import gc
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from tcready.identity import fingerprint, spelled
from tcready.options import ReadOptions
from tcready.schema import (
    BREAKING,
    Confidence,
    Effect,
    Evidence,
    Finding,
    Fix,
    Level,
    Mode,
    Noqa,
    Origin,
    Skipped,
    SourceText,
    StaticModule,
    StaticResult,
    StaticTarget,
    TcreadyError,
    display_path,
    is_installed,
)
from tcready.static import locate
from tcready.static.cache import Reading
from tcready.static.facts import Fact, Loop, Test
from tcready.static.index import ClassInfo, FunctionInfo, Library, ModuleInfo, Program
from tcready.static.interp import Interpreter
from tcready.static.parts import CHANCES, Part, combine, in_both_modes
from tcready.static.rule import Claim, Rule
from tcready.static.source import UnreadableError
from tcready.static.targets import Unit, units
from tcready.static.tree import module_tree
from tcready.static.values import (
    NONE,
    Choice,
    Class,
    Function,
    Instance,
    Tensor,
    Unknown,
    Value,
    likely,
    options,
    tensor_of,
)
from tcready.static.versions import NEWEST, Version

if TYPE_CHECKING:
    from tcready.static.break_effect import Shapes
    from tcready.static.concrete import Concrete, Located
    from tcready.static.graph import CallGraph
    from tcready.static.scope import Frame

Suggest: TypeAlias = "Callable[[str, Rule, Located], str | None]"
STACK = 6000
"""Python frames that may be nested behind reading: long chains of `elif` and of operators recurse."""
SPLITTING: frozenset[Effect] = frozenset({"graph_break", "frame_skip"})
"""Effects that have a shape: what cannot be compiled at all leaves no region around it."""


@dataclass(frozen=True)
class Entry:
    """One thing to analyse: a class or function as the user would compile it."""

    target: str
    module: ModuleInfo
    name: str | None
    """None for every nn.Module of the file."""


@dataclass(frozen=True)
class Analysis:
    """An interpreted entry: where it starts, and the module object it starts from."""

    target: str
    entry: int
    root: Instance | None


def lint(
    targets: Sequence[str], rules: Sequence[Rule], options: ReadOptions, suggest: Suggest | None = None
) -> StaticResult:
    """Analyses files, folders, `path.py::Name` and `pkg.mod::Name`; nothing of theirs is executed.

    A file that cannot be read is in `skipped`; the others are still analysed. Raises TcreadyError for a
    target that does not exist or a name that is not there. `suggest` gives the diff of a rule's suggested
    change at a place (path as shown, rule, place).
    """
    library = Library()
    wanted = units(targets, options.root, options.exclude)
    parts = [examine(unit, rules, options, suggest, library)[0] for unit in wanted]
    return combine(parts, rules=[rule.code for rule in rules])


def examine(
    unit: Unit, rules: Sequence[Rule], options: ReadOptions, suggest: Suggest | None, library: Library
) -> tuple[Part, Reading]:
    """What is found in one unit, and what that depends on. Raises TcreadyError as `lint`."""
    collecting, limit = gc.isenabled(), sys.getrecursionlimit()
    gc.disable()  # what is built is kept to the end; walking it again and again took a third of the time
    try:
        return _examine(unit, rules, options, suggest, library)
    finally:
        sys.setrecursionlimit(limit)
        if collecting:
            gc.enable()


def _examine(
    unit: Unit, rules: Sequence[Rule], options: ReadOptions, suggest: Suggest | None, library: Library
) -> tuple[Part, Reading]:
    search_path = options.search_path or locate.default_search_path(options.root)
    packages = () if unit.path is not None else (unit.place.partition(".")[0],)
    program = Program(
        options.root, search_path, packages, third_party=False, folder=unit.folder, library=library
    )
    skipped: dict[Path, str] = {}
    entries = list(_entries(unit, program, skipped))
    sys.setrecursionlimit(max(sys.getrecursionlimit(), STACK))  # `examine` puts it back
    wanted = options.third_party if options.third_party is not None else unit.name is not None
    programs = [program]
    if wanted and unit.path is None:
        # an installed package was named: what it needs is installed with it, so one reading of all is enough
        programs = [program.widened()]
    elif wanted and _uses_third_party(program):
        programs.append(program.widened())
    modes: list[Mode | None] = ["infer", "train"] if options.mode == "both" else [options.mode]
    try:
        parts = [_part(unit, programs, entries, rules, options, suggest, mode, skipped) for mode in modes]
    except RecursionError:  # in what is made of the interpretation: that itself is cut short where it must be
        skipped |= {entry.module.path: "cannot be analysed: nested too deeply" for entry in entries}
        parts = [_part(unit, programs, (), rules, options, suggest, mode, skipped) for mode in modes]
    part = in_both_modes(*parts) if len(parts) == 2 else parts[0]
    if unit.name is None and entries and not (part.skipped or part.warnings or part.cut):
        with contextlib.suppress(RecursionError):
            part = dataclasses.replace(part, idle=_idle(program, entries[0], rules, options, part))
    reading = Reading(
        tuple(dict.fromkeys(path for each in (program, *programs) for path in each.opened)),
        {name: path for each in (program, *programs) for name, path in each.lookups.items()},
        program.search_path,
    )
    return part, reading


def _part(
    unit: Unit,
    programs: Sequence[Program],
    entries: Sequence[Entry],
    rules: Sequence[Rule],
    options: ReadOptions,
    suggest: Suggest | None,
    mode: Mode | None,
    skipped: Mapping[Path, str],
) -> Part:
    """What is found in a unit in one mode: by a reading of the user's code alone, and of what is installed."""
    training = None if mode is None else mode == "train"
    passes = [
        _Pass(Interpreter(each, training, options.low, plain_call=options.plain_call), entries)
        for each in programs
    ]
    if unit.name is not None and entries and not passes[-1].analyses and not passes[-1].warnings:
        raise TcreadyError(
            f"{unit.target}: {unit.name} is no nn.Module class with a forward, no such instance and no "
            "function whose source is read"
        )
    findings: dict[tuple[str, int, int, str], Finding] = {}
    for run in passes:
        # own code is judged without what happens to be installed, other people's code with it
        origins: list[Origin] = ["own"] if run is passes[0] else []
        if run.interpreter.program.third_party:
            origins.append("third_party")
        for origin in origins:
            made = run.findings(rules, options, suggest, origin)
            findings.update({key: f for key, f in made.items() if key not in findings})
    last = passes[-1]
    targets = last.targets(findings, (mode or "infer",))
    silenced = {key for run in passes for key in run.silenced}
    hiding = passes[0].hiding
    told = sorted(findings, key=lambda key: (findings[key].path, *key[1:]))
    shown = {finding.path for finding in findings.values()}
    named = display_path(str(entries[0].module.path if entries else unit.path), str(options.root))
    # A template, a file of another Python: what names no torch holds no model, and is no reason to fail.
    left_out = [path for path in skipped if unit.name is None and not _names_torch(path, programs[0].library)]
    unread = {path: why for path, why in {**programs[0].skipped, **skipped}.items() if path not in left_out}
    apart = (
        f"{display_path(str(path), str(options.root))} is left out: {skipped[path]}; it does not name torch"
        for path in left_out
    )
    return Part(
        findings=tuple(findings[key] for key in told),
        silenced=tuple(position for position, key in enumerate(told) if key in silenced),
        targets=tuple(targets),
        sources=tuple(_sources(last.interpreter.program, options.root, shown | {named})),
        named=named,
        skipped=tuple(
            Skipped(display_path(str(path), str(options.root)), reason)
            for path, reason in sorted(unread.items())
        ),
        warnings=(*apart, *dict.fromkeys(w for run in passes for w in run.warnings)),
        **_reach(passes[0].interpreter, last.interpreter, options.root),
        hiding=tuple(sorted(hiding, key=lambda noqa: (noqa.path, noqa.line, noqa.code))),
    )


def _names_torch(path: Path, library: Library) -> bool:
    """Whether the word stands anywhere in the file; a file that cannot be opened may."""
    if library.disk.stamp(path) is None:
        return True
    return b"torch" in library.disk.text(path).replace(b"\0", b"")  # UTF-16 has them in between


def _idle(
    program: Program, entry: Entry, rules: Sequence[Rule], options: ReadOptions, part: Part
) -> tuple[Noqa, ...]:
    """What a `# noqa` of a whole file names, where no way to read the file finds anything.

    The file is read again for that: in both modes at once, with all that is improbable, called with its targets and
    without, for the oldest torch, and each function around such a comment as somebody else might call it. Nothing is
    said of code that the file's models do not reach by default: another caller may.
    """
    source = entry.module.source
    if "noqa" not in source.text.lower():
        return ()
    from tcready.static.concrete import Concrete

    shown = display_path(str(entry.module.path), str(options.root))
    idle = {Noqa(shown, line, code) for line, code in Concrete(source).codes_named("TCR")} - set(part.hiding)
    if not idle:
        return ()
    widest = dataclasses.replace(options, torch=(0, 0), low=True)
    functions = [b for found in entry.module.bindings.values() for b in found if isinstance(b, FunctionInfo)]
    walked: set[int] = set()
    for plain_call in (False, True):
        interpreter = _Walking(program, plain_call=plain_call)
        run = _Pass(interpreter, [entry])
        walked |= interpreter.walked
        for info in functions:
            first, last = info.node.lineno, info.node.end_lineno or info.node.lineno
            if any(first <= noqa.line <= last for noqa in idle):
                interpreter.run_function(Function(info), info)
        run.claims(rules, widest, "own")
        if run.warnings or interpreter.cut:
            return ()
        idle -= run.hiding
    innermost = _Innermost(source.tree)
    told = (noqa for noqa in idle if id(innermost(noqa.line)) in walked)
    return tuple(sorted(told, key=lambda noqa: (noqa.line, noqa.code)))


class _Walking(Interpreter):
    """Reads as widely as can be, and keeps the `id` of each statement that compiled code comes by by default."""

    def __init__(self, program: Program, *, plain_call: bool) -> None:
        self.walked: set[int] = set()
        super().__init__(program, None, low=True, plain_call=plain_call)

    def block(self, body: list[ast.stmt], frame: Frame) -> bool:
        for statement in body:
            if not self.quiet and frame.chance == "high" and not frame.conditional:
                self.walked.add(id(statement))
            if not super().block([statement], frame):
                return False
        return True


class _Innermost:
    """The smallest statement around a line."""

    def __init__(self, tree: ast.Module) -> None:
        found = (node for node in ast.walk(tree) if isinstance(node, ast.stmt))
        self._spans = [(node.lineno, node.end_lineno or node.lineno, node) for node in found]

    def __call__(self, line: int) -> ast.stmt | None:
        around = [(first, -last, node) for first, last, node in self._spans if first <= line <= last]
        return max(around, key=lambda span: span[:2])[2] if around else None


def _entries(unit: Unit, program: Program, skipped: dict[Path, str]) -> Iterator[Entry]:
    """The unit's entry; none where its file cannot be read."""
    if unit.path is not None:
        try:
            module = program.file(unit.path)
        except UnreadableError as error:
            skipped[unit.path] = str(error)
            return
        yield Entry(unit.target, module, None) if unit.name is None else _named(unit, module)
        return
    found = program.module(unit.place)
    if found is None:
        if program.find(unit.place) is None:
            raise TcreadyError(
                f"{unit.target}: no module {unit.place!r} on the search path; is its package installed here?"
            )
        reason = next(iter(program.skipped.values()), "its source is not read")
        raise TcreadyError(f"{unit.target}: {reason}")
    yield _named(unit, found)


def _named(unit: Unit, module: ModuleInfo) -> Entry:
    name = unit.name or ""
    if name.split(".")[0] not in module.bindings and not module.stars:
        known = [
            n for n, b in module.bindings.items() if any(isinstance(x, (ClassInfo, FunctionInfo)) for x in b)
        ]
        shown = ", ".join(known[:8]) + (", ..." if len(known) > 8 else "")
        raise TcreadyError(
            f"{unit.target}: no {name!r} in {module.path.name}" + (f"; it has {shown}" if shown else "")
        )
    return Entry(unit.target, module, name)


def _uses_third_party(program: Program) -> bool:
    roots = {
        name.partition(".")[0]
        for module in program.modules()
        for found in module.bindings.values()
        for binding in found
        if (name := getattr(binding, "module", None)) and isinstance(name, str)
    }
    return any(
        not locate.is_opaque(root) and (path := program.find(root)) is not None and not program.is_own(path)
        for root in sorted(roots)
    )


# one interpretation of a unit


class _Pass:
    """Every entry interpreted over one Program, and what follows from it."""

    def __init__(self, interpreter: Interpreter, entries: Sequence[Entry]) -> None:
        self.interpreter = interpreter
        self.analyses: list[Analysis] = []
        self.places: dict[tuple[str, int, int, str], dict[int, str | None]] = {}
        """Where each claim was made, by its key: the contexts, with what makes the frame eager there."""
        self.silenced: set[tuple[str, int, int, str]] = set()
        """Findings that a comment of the source hides; what they say of regions holds all the same."""
        self.hiding: set[Noqa] = set()
        """The comments that hide what a rule claims here, whatever its confidence."""
        self._read: dict[str, Concrete] = {}
        self.warnings: list[str] = []
        for entry in entries:
            try:
                self.analyses.extend(self._analyse(entry))
            except RecursionError:
                self.warnings.append(f"{entry.target}: nested too deeply to be analysed whole")

    def _analyse(self, entry: Entry) -> Iterator[Analysis]:
        if entry.name is None:
            yield from self._whole_file(entry)
            return
        found = self._resolve(entry)
        for value in options(found):
            if isinstance(value, Class):
                yield from self._class(value.info, entry.target)
            elif isinstance(value, Instance) and self.interpreter.is_module(value):
                yield from self._object(value, entry.target)
            elif isinstance(value, Function):
                yield from self._function(value, entry.target)

    def _resolve(self, entry: Entry) -> Value:
        assert entry.name is not None
        first, *rest = entry.name.split(".")
        interpreter = self.interpreter
        value = interpreter.global_value(entry.module, first)
        for name in rest:
            if value is not None:
                value = interpreter.attribute(value, name, interpreter.module_frame(entry.module))
        if value is None:
            raise TcreadyError(f"{entry.target}: no {entry.name!r} in {entry.module.path.name}")
        return value

    def _class(self, cls: ClassInfo, target: str) -> Iterator[Analysis]:
        yield from self._object(self.interpreter.build(cls), target)

    def _object(self, root: Instance, target: str) -> Iterator[Analysis]:
        context = self.interpreter.run_forward(root)
        if context is not None:
            yield Analysis(target, context, root)

    def _function(self, value: Function, target: str) -> Iterator[Analysis]:
        """A callable that returns a module is a way to build it; any other is what gets compiled."""
        interpreter = self.interpreter
        interpreter.quiet += 1
        try:
            made = interpreter.invoke(value, (), {}, interpreter.module_frame(value.info.module), "high")
        finally:
            interpreter.quiet -= 1
        roots = [v for v in options(made) if isinstance(v, Instance) and interpreter.is_module(v)]
        if roots:
            for root in roots:
                yield from self._object(root, target)
        else:
            yield Analysis(target, interpreter.run_function(value, value.info) or 0, None)

    def _whole_file(self, entry: Entry) -> Iterator[Analysis]:
        """Every nn.Module of a file: those that no other class uses first, then what was not reached."""
        interpreter = self.interpreter
        classes = [c for c in entry.module.classes() if interpreter.lineage(c).is_module]
        classes = [c for c in classes if interpreter.lineage(c).functions("forward")]
        used = _named_by_others(classes)
        for cls in sorted(classes, key=lambda c: c.name in used):
            forward = interpreter.lineage(cls).functions("forward")[0]
            if cls.name in used and any(c.function is forward for c in interpreter.contexts):
                continue
            yield from self._class(cls, f"{entry.target}::{cls.name}")
        for name, value in self._compiled_functions(entry.module, bool(classes)):
            yield Analysis(f"{entry.target}::{name}", interpreter.run_function(value, value.info) or 0, None)

    def _compiled_functions(self, module: ModuleInfo, has_classes: bool) -> Iterator[tuple[str, Function]]:
        """Top-level functions decorated with `torch.compile`; `model` where the file has no module class."""
        for name, found in module.bindings.items():
            for binding in found:
                if not isinstance(binding, FunctionInfo):
                    continue
                named = (ast.unparse(d.func if isinstance(d, ast.Call) else d) for d in binding.decorators)
                compiled = any(name in ("compile", "torch.compile") for name in named)
                if compiled or (name == "model" and not has_classes):
                    yield name, Function(binding)

    # findings

    def findings(
        self, rules: Sequence[Rule], options: ReadOptions, suggest: Suggest | None, wanted: Origin
    ) -> dict[tuple[str, int, int, str], Finding]:
        """Findings by (file, line, column, rule) in code of the wanted origin."""
        claims = self.claims(rules, options, wanted)
        if not claims:
            return {}
        chains = self._chains()
        made: dict[tuple[str, int, int, str], Finding] = {}
        repeats: dict[str, int] = {}
        for key in sorted(claims):
            rule, claim, fact, confidence = claims[key]
            if confidence == "low" and not options.low:
                continue
            chain = next((chains[c] for c in sorted(self.places[key]) if c in chains), ())
            finding = self._finding(rule, claim, fact, confidence, chain, options, wanted, suggest)
            if finding.effect in SPLITTING:
                finding = dataclasses.replace(finding, break_effect=self.shapes.shape(self.places[key]))
            count = repeats.get(finding.fingerprint, 0)
            repeats[finding.fingerprint] = count + 1
            if count:
                finding = dataclasses.replace(finding, fingerprint=f"{finding.fingerprint}-{count + 1}")
            made[key] = finding
        return made

    def claims(
        self, rules: Sequence[Rule], options: ReadOptions, wanted: Origin
    ) -> dict[tuple[str, int, int, str], tuple[Rule, Claim, Fact, Confidence]]:
        """What rules say by (file, line, column, rule) in code of the wanted origin, each as the surest fact has it."""
        listening: dict[type, list[Rule]] = {}
        for rule in rules:
            for kind in rule.facts:
                listening.setdefault(kind, []).append(rule)
        claims: dict[tuple[str, int, int, str], tuple[Rule, Claim, Fact, Confidence]] = {}
        judged: dict[tuple[object, ...], list[tuple[Rule, Claim, Confidence]]] = {}
        alike = _Alike()
        origins: dict[str, str] = {}
        for fact in self.interpreter.facts:
            path = fact.where.path
            if path not in origins:
                origins[path] = "own" if self.interpreter.program.is_own(Path(path)) else "third_party"
            if origins[path] != wanted:
                continue
            asked = listening.get(type(fact))
            if asked is None:
                continue
            same = alike(fact)
            if same not in judged:
                judged[same] = [
                    (rule, claim, _confidence(fact, claim, rule))
                    for rule in asked
                    for claim in _claims(rule, fact, options.torch or NEWEST)
                ]
            for rule, claim, confidence in judged[same]:
                key = (path, fact.node.lineno, fact.node.col_offset, rule.code)
                standing = self.places.setdefault(key, {})
                standing[fact.where.context] = standing.get(fact.where.context) or self._cause(
                    fact, claim, rule
                )
                known = claims.get(key)
                if known is None or CHANCES.index(confidence) > CHANCES.index(known[3]):
                    claims[key] = (rule, claim, fact, confidence)
        for key, (rule, _, fact, _) in claims.items():
            for line, code in self._concrete(key[0]).silencers(rule.code, *_lines(fact.node)):
                self.silenced.add(key)
                self.hiding.add(Noqa(display_path(key[0], str(options.root)), line, code))
        return claims

    def _cause(self, fact: Fact, claim: Claim, rule: Rule) -> str | None:
        """What makes the function around a break eager as a whole; None where a break splits it."""
        from tcready.static.break_effect import cause_of

        if (claim.effect or rule.effect) == "frame_skip":
            return "construct"
        arguments = fact.node.args if isinstance(fact.node, ast.Call) else ()
        if any(isinstance(argument, ast.GeneratorExp) for argument in arguments):
            return "iterator"
        around = fact.where.enclosing
        function = self.interpreter.contexts[fact.where.context].function
        if isinstance(fact, Test) and fact.kind == "while" and function is not None:
            if any(isinstance(n, ast.While) and _asked(n.test) is fact.node for n in ast.walk(function.node)):
                around = around[:-1]  # all of a loop's test stands before the loop, and again at its end
        return cause_of(around)

    @cached_property
    def graph(self) -> CallGraph:
        from tcready.static.graph import CallGraph

        return CallGraph(self.interpreter)

    @cached_property
    def shapes(self) -> Shapes:
        from tcready.static.break_effect import Shapes

        return Shapes(self.interpreter, [analysis.entry for analysis in self.analyses])

    def _chains(self) -> dict[int, tuple[str, ...]]:
        chains: dict[int, tuple[str, ...]] = {}
        for analysis in self.analyses:
            for context, chain in self.graph.chains(analysis.entry).items():
                chains.setdefault(context, chain)
        return chains

    def _finding(
        self,
        rule: Rule,
        claim: Claim,
        fact: Fact,
        confidence: Confidence,
        chain: tuple[str, ...],
        options: ReadOptions,
        origin: Origin,
        suggest: Suggest | None,
    ) -> Finding:
        """The finding of a claim."""
        concrete = self._concrete(fact.where.path)
        source = concrete.source
        node = fact.node
        effect = claim.effect or rule.effect
        level: Level = claim.level or rule.level
        if confidence == "low" or rule.unproved:
            level = "note"
        shown = display_path(fact.where.path, str(options.root))
        _, last = _lines(node)
        end = node.end_col_offset or 0
        if isinstance(node, ast.ClassDef):
            end = node.col_offset + len(f"class {node.name}")
        column, end_column = source.column(node.lineno, node.col_offset), source.column(last, end)
        written = concrete.written(node.lineno, column, last, end_column)
        diff = None
        if suggest is not None and rule.rewrite is not None and origin == "own":
            located = concrete.locate(node.lineno, column, last, end_column)
            diff = suggest(shown, rule, located) if located is not None else None
        return Finding(
            rule=rule.code,
            name=rule.name,
            effect=effect,
            level=level,
            confidence=confidence,
            message=claim.message,
            path=shown,
            line=node.lineno,
            column=column,
            end_line=last,
            end_column=end_column,
            symbol=fact.where.symbol,
            origin=origin,
            status="predicted",
            gb_ids=rule.gb_ids,
            targets=(),
            fingerprint=fingerprint(rule.code, shown, fact.where.symbol, spelled(node)),
            fix=Fix(_first_sentence(rule.instead), safe=False, diff=diff, verified=None),
            evidence=tuple(Evidence("static", text) for text in _evidence(fact, written, confidence)),
            reached_by=chain,
        )

    def _concrete(self, path: str) -> Concrete:
        """The concrete syntax of an analysed file."""
        from tcready.static.concrete import Concrete

        if path not in self._read:
            sources = (m.source for m in self.interpreter.program.modules() if str(m.path) == path)
            self._read[path] = Concrete(next(sources))
        return self._read[path]

    # targets

    def targets(
        self, findings: dict[tuple[str, int, int, str], Finding], modes: tuple[Mode, ...]
    ) -> list[StaticTarget]:
        """The module hierarchy of every analysed root, with the breaking findings each module runs."""
        breaking: dict[int, list[str]] = {}
        for fact in self.interpreter.facts:
            start = (fact.where.path, fact.node.lineno, fact.node.col_offset)
            for key in ((*start, code) for code in self._codes):
                finding = findings.get(key)
                if finding is not None and finding.effect in BREAKING and finding.confidence != "low":
                    breaking.setdefault(fact.where.context, []).append(finding.fingerprint)
        made: list[StaticTarget] = []
        for analysis in self.analyses:
            if analysis.root is None:
                prints = sorted({p for found in breaking.values() for p in found})
                root = StaticModule("", "function", None, None, tuple(prints))
                made.append(StaticTarget(analysis.target, (root,), modes))
                continue
            modules: list[StaticModule] = []
            for node in module_tree(self.interpreter, analysis.root):
                found: set[str] = set()
                where: tuple[str, int] | None = None
                for value in node.values:
                    if not isinstance(value, Instance):
                        continue
                    for context in self.graph.run_by(value.ident) if breaking else ():
                        found.update(breaking.get(context, ()))
                    forward = self.interpreter.lineage(value.cls).functions("forward")
                    if forward and where is None:
                        where = (str(forward[0].module.path), forward[0].node.lineno)
                names = [
                    v.cls.name if isinstance(v, Instance) else v.name.rpartition(".")[2] for v in node.values
                ]
                modules.append(
                    StaticModule(
                        node.name,
                        " | ".join(dict.fromkeys(names)),
                        display_path(where[0], str(self.interpreter.program.root)) if where else None,
                        where[1] if where else None,
                        tuple(sorted(found)),
                        node.known,
                    )
                )
            made.append(StaticTarget(analysis.target, tuple(modules), modes))
        return made

    @property
    def _codes(self) -> list[str]:
        return sorted({key[3] for key in self.places})


def _named_by_others(classes: Sequence[ClassInfo]) -> set[str]:
    """Names of classes that the code of another of them speaks of; comments and strings say nothing."""
    if not classes:
        return set()
    names = re.compile(r"\b(?:" + "|".join(re.escape(c.name) for c in classes) + r")\b")
    found: set[str] = set()
    for cls in classes:
        body = cls.module.source.lines[cls.node.lineno - 1 : cls.node.end_lineno]
        told = set(names.findall("\n".join(body))) - {cls.name} - found
        if told:  # the text is quick to search, the tree is right
            found |= told & {n.id for n in ast.walk(cls.node) if isinstance(n, ast.Name)}
    return found


class _Alike:
    """What rules may ask of a fact: all but the number of its context. Half of all facts differ in that alone."""

    def __init__(self) -> None:
        self._names: dict[type, tuple[str, ...]] = {}

    def __call__(self, fact: Fact) -> tuple[object, ...]:
        kind = type(fact)
        if kind not in self._names:
            names = (field.name for field in dataclasses.fields(fact))
            self._names[kind] = tuple(name for name in names if name != "where")
        where = fact.where
        values = [getattr(fact, name) for name in self._names[kind]]
        return kind, where.enclosing, where.chance, where.conditional, *values


def _lines(node: ast.expr | ast.stmt) -> tuple[int, int]:
    """First and last line of what a finding at `node` spans: of a class the header alone, never a body."""
    return node.lineno, node.lineno if isinstance(node, ast.ClassDef) else node.end_lineno or node.lineno


def _asked(test: ast.expr) -> ast.expr:
    while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test = test.operand
    return test


def _claims(rule: Rule, fact: Fact, torch: Version) -> Iterable[Claim]:
    found = rule.check(fact)
    if found is None:
        return ()
    claims = (found,) if isinstance(found, Claim) else found
    return [claim for claim in claims if claim.before is None or torch < claim.before]


def _confidence(fact: Fact, claim: Claim, rule: Rule) -> Confidence:
    """The least of: how sure the code runs, how sure the values are tensors, what the rule says."""
    levels: list[Confidence] = [fact.where.chance]
    if rule.incidental and fact.where.conditional:
        levels.append("low" if is_installed(fact.where.path) else "medium")
    if claim.confidence is not None:
        levels.append(claim.confidence)
    for field in dataclasses.fields(fact):
        levels.extend(_sureness(getattr(fact, field.name)))
    return min(levels, key=CHANCES.index)


def _sureness(value: Any) -> Iterator[Confidence]:
    if isinstance(value, tuple):
        for item in value:
            yield from _sureness(item[1] if isinstance(item, tuple) and len(item) == 2 else item)
        return
    if not isinstance(value, (Tensor, Choice)):
        return
    tensor = tensor_of(value)
    if tensor is not None:
        if not tensor.sure:
            yield "medium"
        if tensor_of(likely(value)) is None:  # only what somebody passes in place of the default is one
            yield "low"
        others = [v for v in options(value) if not isinstance(v, Tensor) and v != NONE]
        if others:  # what was joined here is as likely something else
            yield "medium" if all(isinstance(v, Unknown) for v in others) else "low"


def _evidence(fact: Fact, written: str, confidence: Confidence) -> Iterator[str]:
    """Why the static pass says so, in plain words."""
    values = [getattr(fact, name, None) for name in ("value", "receiver", "base", "args")]
    flat = [v for value in values for v in (value if isinstance(value, tuple) else (value,)) if v is not None]
    shown = written if len(written) <= 80 else written[:77] + "..."
    tensors = [t for v in flat if (t := tensor_of(v))]
    if isinstance(fact, (Test, Loop)) and tensors:
        yield f"`{shown}` is a tensor" + ("" if confidence == "high" else ", as far as the source tells")
    elif tensors:
        yield f"`{shown}` is given a tensor" + (
            "" if confidence == "high" else ", as far as the source tells"
        )
    else:
        yield f"`{shown}` is reached by code that gets compiled"
    if fact.where.conditional:
        yield "stands below a branch that configuration, or how the model is called, decides"


def _first_sentence(text: str) -> str:
    flat = " ".join(text.split())
    head = flat.split("; ")[0].split(". ")[0]
    return head.rstrip(".:") if head else "See the rule"


def _sources(program: Program, root: Path, shown: set[str]) -> Iterator[SourceText]:
    found = []
    for module in program.modules():
        path = display_path(str(module.path), str(root))
        if path in shown:
            found.append(SourceText(path, module.source.sha256, module.source.text))
    yield from sorted(found, key=lambda s: s.path)


def _reach(own: Interpreter, wide: Interpreter, root: Path) -> dict[str, Any]:
    """The fields of a Part that count what was reached."""
    shown: dict[str, str] = {}

    def show(path: str) -> str:
        if path not in shown:
            shown[path] = display_path(path, str(root))
        return shown[path]

    calls: dict[str, dict[str, bool]] = {}
    for (path, line, column), resolved in wide.calls.items():
        calls.setdefault(show(path), {})[f"{line}:{column}"] = resolved
    return {
        "files": tuple(sorted(show(str(module.path)) for module in wide.program.modules())),
        "reached": tuple(
            sorted(
                {
                    f"{show(c.path)}::{c.symbol}"
                    for c in wide.contexts
                    if c.function is not None and c.compiled
                }
            )
        ),
        "calls": calls,
        "cut": wide.cut + own.cut if own is not wide else wide.cut,
    }
