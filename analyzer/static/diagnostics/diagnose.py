"""From facts and rules to claims, and from claims to findings. The confidence of a finding is decided only here."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

from tcready.portable.options import ReadOptions
from tcready.schema.compile_call import CompileCall
from tcready.schema.display_paths import display_path, is_installed
from tcready.schema.edit import Edit
from tcready.schema.enums import BREAKING, Confidence, Effect, Level, Origin, in_words
from tcready.schema.fix import Fix
from tcready.schema.static import Evidence, Finding
from tcready.source.edits import patch
from tcready.source.fingerprint import fingerprint, spelled
from tcready.static.diagnostics.break_effect import Cause, cause_at, is_apart
from tcready.static.diagnostics.call_graph import CallPath
from tcready.static.diagnostics.dynamo_settings import DynamoSettings
from tcready.static.diagnostics.rule import Claim, FixCandidate, Rule, Span
from tcready.static.diagnostics.shadowed_breaks import Site
from tcready.static.domain.facts import (
    LEAKED_FLAG,
    Alone,
    Call,
    Condition,
    Consumed,
    DecidedBy,
    Fact,
    InArguments,
    Loop,
    OfNew,
    Test,
    Where,
    extent,
    undecided,
)
from tcready.static.domain.values import (
    FLOATS,
    NONE,
    Choice,
    Const,
    FloatType,
    Tensor,
    Unknown,
    likely,
    options,
    tensor_of,
)
from tcready.static.entry_analysis import Interpretation
from tcready.static.frontend.index import FunctionInfo, own_nodes
from tcready.static.frontend.source import Source
from tcready.static.library.torch_tables import Tables
from tcready.static.unit_results import CONFIDENCES

if TYPE_CHECKING:
    from collections.abc import Callable

Suggest: TypeAlias = "Callable[[Sequence[FixCandidate]], Iterable[tuple[Edit, ...]]]"
"""Returns the edits of the change suggested by each candidate's rule, none if there is no safe one; in their order."""
Place: TypeAlias = "tuple[str, int, int, str]"
"""The position of a rule's claim: (file, line, byte column, rule code)."""
MAX_CONDITIONS = 3
"""The number of conditions shown for a place: those nearest to it."""
DECIDED_BY: Mapping[DecidedBy, str] = MappingProxyType(
    {
        "argument": "how it is called decides",
        "configuration": "its configuration decides",
        "unknown": "",
        "size": "the size of a tensor decides",
        "data": "the values in a tensor decide",
    }
)
_OF_ONE_SIZE = re.compile(r"^match |^[^<>]*[!=]=[^<>]*$")
"""A test for a certain size (a case of a `match` too), and no other test of sizes."""
MADE = (ast.GeneratorExp, ast.ListComp, ast.SetComp, ast.DictComp)
DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
APART = (Alone, Consumed, InArguments, OfNew)
"""Facts that break if another break makes Python run their code, and that are in no constructor."""
SPLITTING: frozenset[Effect] = frozenset({"graph_break", "frame_skip"})
"""Effects that leave regions around the break: code that cannot be compiled at all leaves none."""


@dataclass(frozen=True)
class Diagnosis:
    """The claim of a rule at one place, from the fact with the highest confidence."""

    rule: Rule
    claim: Claim
    fact: Fact
    confidence: Confidence
    hidden: bool = False
    """An earlier break ends the trace before this one is met."""
    types: tuple[FloatType, ...] = ()
    """It is unlikely only because the model does not compute in one of these types."""

    @property
    def effect(self) -> Effect:
        return self.claim.effect or self.rule.effect

    @property
    def level(self) -> Level:
        uncertain = self.confidence == "low" or self.rule.unproved
        return "note" if uncertain else self.claim.level or self.rule.level

    @property
    def lines(self) -> tuple[int, int]:
        """The first and last line of the finding: of a class or function the header alone, never a body."""
        begins, ends = extent(self.fact)
        header = isinstance(ends, DEFINITIONS)
        return begins.lineno, ends.lineno if header else ends.end_lineno or ends.lineno


@dataclass(frozen=True)
class Diagnoses:
    """The claims of rules on each single fact. A fact that is found again after an edit, as the same object, keeps its
    result: what a rule can query of it has not changed."""

    settings: DynamoSettings = dataclasses.field(default_factory=DynamoSettings)
    of: dict[int, tuple[Fact, list[tuple[Rule, Claim, Confidence]]]] = dataclasses.field(default_factory=dict)
    """By the `id` of the fact."""


@dataclass(frozen=True)
class Claims:
    """The claims of rules on one interpretation."""

    by_place: dict[Place, Diagnosis] = dataclasses.field(default_factory=dict)
    contexts: dict[Place, dict[int, Cause]] = dataclasses.field(default_factory=dict)
    """The contexts of each claim, with the reason why the whole function runs eagerly there."""
    judgements: Diagnoses = dataclasses.field(default_factory=Diagnoses)
    """For the reading after the next edit."""


def claims(
    interpretation: Interpretation, rules: Sequence[Rule], wanted: Origin, before: Diagnoses | None = None
) -> Claims:
    """Return the claims of rules on the facts in code of the wanted origin; `before` are their results for each before
    the last edit."""
    interpreter = interpretation.interpreter
    listening: dict[type, list[Rule]] = {}
    for rule in rules:
        for kind in rule.facts:
            listening.setdefault(kind, []).append(rule)
    origins: dict[str, Origin] = {}
    facts = []
    for fact in interpreter.facts:
        path = fact.where.path
        if path not in origins:
            origins[path] = "own" if interpreter.program.is_own(Path(path)) else "third_party"
        if origins[path] == wanted and type(fact) in listening:
            facts.append(fact)
    settings = interpretation.settings if facts else DynamoSettings()
    tables = interpreter.operations.tables
    known_of = before.of if before is not None and before.settings == settings else {}
    found = Claims(judgements=Diagnoses(settings))
    diagnosis: dict[tuple[object, ...], list[tuple[Rule, Claim, Confidence]]] = {}
    question = _Question()
    reach = _Reach(interpretation)
    for fact in facts:
        judgement = known_of.get(id(fact))
        if judgement is None:
            same = question(fact)
            if same not in diagnosis:
                diagnosis[same] = [
                    (rule, claim, confidence_of(fact, claim, rule))
                    for rule, claim in _claims_of_fact(listening[type(fact)], fact, settings, tables)
                ]
            judgement = fact, diagnosis[same]
        found.judgements.of[id(fact)] = judgement
        reached = reach(fact.where) if judgement[1] else "high"
        for rule, claim, sure in judgement[1]:
            confidence = min(sure, reached, key=CONFIDENCES.index)
            begins, _ = extent(fact)
            place = (fact.where.path, begins.lineno, begins.col_offset, rule.code)
            contexts = found.contexts.setdefault(place, {})
            function = interpreter.contexts[fact.where.context].function
            cause = cause_at(fact, claim.effect or rule.effect, function)
            contexts[fact.where.context] = contexts.get(fact.where.context) or cause
            known = found.by_place.get(place)
            types = _types_of(reach, fact, claim, rule) if confidence == "low" else ()
            if (
                known is None
                or CONFIDENCES.index(confidence) > CONFIDENCES.index(known.confidence)
                or (types and known.confidence == "low" and not known.types)
            ):
                interpreter.program.library.go_on()
                found.by_place[place] = Diagnosis(rule, claim, fact, confidence, types=types)
    taken = {place[:3] for place, diagnosis in found.by_place.items() if _claims_a_break(diagnosis)}
    for place in [p for p, diagnosis in found.by_place.items() if diagnosis.rule.fallback and p[:3] in taken]:
        del found.by_place[place], found.contexts[place]
    _raise_what_every_way_meets(interpretation, reach, found)
    _lower_what_is_not_met(interpretation, found)
    _raise_what_leaves_the_graph(interpretation, found)
    _keep_what_follows(interpretation, found)
    if any(isinstance(diagnosis.fact, OfNew) for diagnosis in found.by_place.values()):
        _lower_what_is_not_met(interpretation, found, following=True)
    return found


def _types_of(reach: _Reach, fact: Fact, claim: Claim, rule: Rule) -> tuple[FloatType, ...]:
    """In which types a break is met that no call comes by if nothing else is said; nothing if more than the type that the
    model computes in keeps calls from it."""
    if (claim.effect or rule.effect) not in BREAKING:
        return ()
    way = reach.way(fact.where.context, fact.where)
    conditions = (*(way.conditions if way is not None else ()), *fact.where.conditions)
    unusual = [condition.types for condition in conditions if condition.usual is False]
    found = tuple(name for name in FLOATS if unusual and all(name in types for types in unusual))
    if not found:
        return ()
    there = dataclasses.replace(fact, where=dataclasses.replace(fact.where, confidence="high"))
    sure = min(confidence_of(there, claim, rule), reach(fact.where), key=CONFIDENCES.index)
    return found if sure != "low" else ()


def apart_from(claims: Claims, functions: Collection[tuple[str, str]]) -> Claims:
    """Return the claims outside of these functions, which are given by file and symbol."""
    others = {
        place: diagnosis
        for place, diagnosis in claims.by_place.items()
        if (diagnosis.fact.where.path, diagnosis.fact.where.symbol) not in functions
    }
    return Claims(others, {place: claims.contexts[place] for place in others})


def _raise_what_every_way_meets(interpretation: Interpretation, reach: _Reach, found: Claims) -> None:
    """Raise the confidence if every path through the undecided tests of a function reaches a break: one of these runs, so
    none is unlikely only because another may run instead, provided its function is reached."""
    by_context: dict[int, dict[Place, tuple[tuple[str, bool], ...]]] = {}
    for place, diagnosis in found.by_place.items():
        conditions = diagnosis.fact.where.conditions
        if (
            diagnosis.effect in SPLITTING
            and not diagnosis.rule.follows
            and all(c.usual is not False for c in conditions)
        ):
            way = tuple((c.test, c.holds) for c in conditions if c.usual is None)
            by_context.setdefault(diagnosis.fact.where.context, {})[place] = way
    raised: list[Place] = []
    for ways in by_context.values():
        lowered = [place for place, way in ways.items() if way and found.by_place[place].confidence == "low"]
        tested = _tested_on_every_way(frozenset(ways.values())) if lowered else frozenset()
        raised += [place for place in lowered if ways[place][0][0] in tested]
    entered: dict[int, Confidence] = {}
    for fact in interpretation.interpreter.facts if raised else ():
        known = entered.get(fact.where.context, "low")
        entered[fact.where.context] = max(known, fact.where.confidence, key=CONFIDENCES.index)
    for place in raised:
        diagnosis = found.by_place[place]
        sure = entered[diagnosis.fact.where.context]
        where = dataclasses.replace(diagnosis.fact.where, confidence=sure, conditional=False)
        alike = dataclasses.replace(diagnosis.fact, where=where)
        reached = reach(dataclasses.replace(where, conditions=()))
        own = confidence_of(alike, diagnosis.claim, diagnosis.rule)
        sure = min("medium", reached, own, key=CONFIDENCES.index)
        found.by_place[place] = dataclasses.replace(diagnosis, confidence=sure)


def _tested_on_every_way(
    ways: frozenset[tuple[tuple[str, bool], ...]], before: tuple[tuple[str, bool], ...] = ()
) -> frozenset[str]:
    """Return the first tests behind `before` of which both outcomes lead to one of these places, each given by its tests
    and their outcomes; nothing if no test does."""
    here = len(before)
    tests = {way[here][0] for way in ways if len(way) > here and way[:here] == before}

    def is_met(way: tuple[tuple[str, bool], ...]) -> bool:
        return way in ways or bool(_tested_on_every_way(ways, way))

    return frozenset(test for test in tests if all(is_met((*before, (test, side))) for side in (True, False)))


def _lower_what_is_not_met(interpretation: Interpretation, found: Claims, *, following: bool = False) -> None:
    """Lower the confidence of a break, or an error of compiling, that an earlier break hides in every function containing
    it; `following`: also of code after a method of a new object that cannot be handed over."""
    breaking = {
        place: diagnosis
        for place, diagnosis in found.by_place.items()
        if diagnosis.effect in BREAKING
        and (not diagnosis.rule.follows or (following and isinstance(diagnosis.fact, OfNew)))
    }
    targets: dict[FunctionInfo | None, dict[ast.AST, int]] = {}

    def assigned(fact: Fact) -> int | None:
        function = interpretation.interpreter.contexts[fact.where.context].function
        if function not in targets:
            targets[function] = _targets(function)
        return targets[function].get(fact.node)

    sites = {
        place: [
            Site(
                context,
                (place[1], 0) if last is None else (last, 1),
                frozenset(diagnosis.fact.where.conditions),
                diagnosis.confidence == "high",
                diagnosis.effect == "frame_skip"
                and diagnosis.confidence != "low"
                and diagnosis.fact.where.confidence == "high",
                len(diagnosis.fact.where.enclosing),
                read,
                comprehension=inner,
                compiled="function" in diagnosis.fact.where.enclosing,
            )
            for read in (_attributes(diagnosis.fact),)
            for inner in (_comprehension(interpretation, diagnosis.fact),)
            for last in (assigned(diagnosis.fact),)
            for context in found.contexts[place]
        ]
        for place, diagnosis in breaking.items()
    }
    splitting = (each for place, each in sites.items() if breaking[place].effect in SPLITTING)
    shadowed = interpretation.shadowed(site for each in splitting for site in each)
    for place, diagnosis in breaking.items():
        if not diagnosis.rule.follows and all(map(shadowed, sites[place])):
            found.by_place[place] = dataclasses.replace(diagnosis, confidence="low", hidden=True)


def _raise_what_leaves_the_graph(interpretation: Interpretation, found: Claims) -> None:
    """Raise the confidence for a tensor with the flag that leaves the graph: at a break after which its name is read."""
    flagged = {
        place: diagnosis
        for place, diagnosis in found.by_place.items()
        if isinstance(diagnosis.fact, Call) and diagnosis.fact.gb_id == LEAKED_FLAG and not diagnosis.hidden
    }
    for place, diagnosis in flagged.items():
        function = interpretation.interpreter.contexts[diagnosis.fact.where.context].function
        lifetime = _lifetime(diagnosis.fact.node, function) if function is not None else None
        if lifetime is None:
            continue
        made, reads = lifetime
        sure: Confidence = "low"
        for other, breaking in found.by_place.items():
            end = breaking.fact.node.end_lineno or other[1]
            same = other[0] == place[0] and not found.contexts[other].keys().isdisjoint(found.contexts[place])
            if same and breaking.effect in SPLITTING and made < other[1] and any(line >= end for line in reads):
                sure = max(sure, breaking.confidence, key=CONFIDENCES.index)
        sure = min("medium", sure, key=CONFIDENCES.index)
        if CONFIDENCES.index(sure) > CONFIDENCES.index(diagnosis.confidence):
            found.by_place[place] = dataclasses.replace(diagnosis, confidence=sure)


def _lifetime(node: ast.AST, function: FunctionInfo) -> tuple[int, list[int]] | None:
    """On which line a function gives a name what a call makes, and on which it reads that, up to where the name is given
    something else; moving it to a device leaves it what it is."""
    assigned = [n for n in own_nodes(function.node) if isinstance(n, ast.Assign) and len(n.targets) == 1]
    first = next((n for n in assigned if any(part is node for part in _moved_values(n.value))), None)
    if first is None or not isinstance(first.targets[0], ast.Name):
        return None
    name = first.targets[0].id
    again = [
        n.lineno
        for n in assigned
        if n.lineno > first.lineno
        and isinstance(n.targets[0], ast.Name)
        and n.targets[0].id == name
        and not any(isinstance(part, ast.Name) and part.id == name for part in _moved_values(n.value))
    ]
    last = min(again, default=function.node.end_lineno or first.lineno)
    named = (n for n in own_nodes(function.node) if isinstance(n, ast.Name) and n.id == name)
    reads = [n.lineno for n in named if isinstance(n.ctx, ast.Load) and first.lineno < n.lineno <= last]
    return first.end_lineno or first.lineno, reads


def _moved_values(value: ast.AST) -> Iterator[ast.AST]:
    """Yield an expression, and the values that it moves to a device or casts."""
    yield value
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        if value.func.attr not in ("to", "cuda", "cpu", "type_as"):
            return
        value = value.func.value
        yield value


def _keep_what_follows(interpretation: Interpretation, found: Claims) -> None:
    """Give code that breaks only if Python runs it alone (a constructor, a generator or a comprehension) the confidence
    of the break that causes this; drop it if there is none."""
    following = {place: diagnosis for place, diagnosis in found.by_place.items() if diagnosis.rule.follows}
    if not following:
        return
    surest: dict[tuple[Place, int], Confidence] = {}
    for least in ("medium", "high"):
        standing: dict[int, Cause] = {}
        points: dict[int, list[tuple[int, Cause]]] = {}
        for place, diagnosis in found.by_place.items():
            sure = CONFIDENCES.index(diagnosis.confidence) >= CONFIDENCES.index(least)
            if sure and diagnosis.effect in SPLITTING and place not in following:
                # of a package nobody uses most, and much would follow from one break that is not met
                met = not (is_installed(place[0]) and undecided(diagnosis.fact.where.conditions))
                for context, cause in found.contexts[place].items():
                    standing[context] = standing.get(context) or cause
                    if met:
                        points.setdefault(context, []).append((place[1], cause))
        run = _run_by_python(interpretation, found, following, standing, points)
        surest.update(dict.fromkeys(run, least))
    for place, diagnosis in following.items():
        contexts = {c: cause for c, cause in found.contexts[place].items() if (place, c) in surest}
        if contexts:
            strongest = max((surest[place, c] for c in contexts), key=CONFIDENCES.index)
            confidence = min(diagnosis.confidence, strongest, key=CONFIDENCES.index)
            found.by_place[place] = dataclasses.replace(diagnosis, confidence=confidence)
            found.contexts[place] = contexts
        else:
            del found.by_place[place], found.contexts[place]


def _run_by_python(
    interpretation: Interpretation,
    found: Claims,
    following: Mapping[Place, Diagnosis],
    standing: Mapping[int, Cause],
    points: Mapping[int, Sequence[tuple[int, Cause]]],
) -> set[tuple[Place, int]]:
    """Return the contexts in which Python runs these places itself, if breaks are in some: `points` are those that are
    certainly reached, with their lines."""
    effects = interpretation.break_effects
    alone = {place for place, diagnosis in following.items() if isinstance(diagnosis.fact, APART)}
    constructors = {c for place in following if place not in alone for c in found.contexts[place]}
    run = effects.run_by_python(standing, constructors)
    made = {(place, c) for place in following if place not in alone for c in found.contexts[place] if c in run}
    eager = effects.eager_code(points)
    for place in alone:
        fact = following[place].fact
        node = fact.node
        for context in found.contexts[place]:
            last = node.end_lineno or node.lineno
            if isinstance(fact, OfNew):
                by_python = effects.holds_tensor(context) and eager.breaks_on(
                    context, node.lineno, last, fact.making.lineno
                )
            elif isinstance(fact, InArguments):
                by_python = effects.calls_what_breaks(eager, context, node.lineno - fact.above, fact.called)
                by_python = by_python or (
                    not fact.of_tensor and eager.breaks_on(context, node.lineno, last, node.lineno)
                )
            elif isinstance(fact, Consumed):
                by_python = eager.breaks_on(context, node.lineno, last, 0)
            elif isinstance(fact, Alone) and isinstance(node, MADE):
                by_python = eager.makes_on(
                    context, node.lineno, last, by_its_own=fact.by_its_own, compiled=fact.compiled
                )
            else:
                by_python = eager.makes(context)
            if by_python:
                made.add((place, context))
    return made


def _attributes(fact: Fact) -> frozenset[str]:
    """Return the attributes read for a fact in its own expression, the first read first."""
    nodes = (node for node in ast.walk(fact.node) if node is not fact.node)
    return frozenset(node.attr for node in nodes if isinstance(node, ast.Attribute))


def _comprehension(interpretation: Interpretation, fact: Fact) -> tuple[int, int] | None:
    """Return the start of the innermost comprehension that runs a fact's expression as a function of its own."""
    function = interpretation.interpreter.contexts[fact.where.context].function
    if function is None or not is_apart(fact.where.enclosing):
        return None
    around = (
        (node.lineno, node.col_offset)
        for node in own_nodes(function.node)
        if isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp))
        and _holds(node, fact.node)
        and not _holds(node.generators[0].iter, fact.node)
    )
    return max(around, default=None)


def _targets(function: FunctionInfo | None) -> dict[ast.AST, int]:
    """Return the nodes in the targets that a function assigns to, with the last line of the assigned value if it is
    another: a target is evaluated after the value."""
    return {
        part: node.value.end_lineno
        for node in (own_nodes(function.node) if function is not None else ())
        if isinstance(node, ast.Assign) and node.value.end_lineno and node.value.end_lineno > node.lineno
        for target in node.targets
        for part in ast.walk(target)
    }


def _holds(whole: ast.expr, part: ast.AST) -> bool:
    return any(node is part for node in ast.walk(whole))


def _claims_a_break(diagnosis: Diagnosis) -> bool:
    return not diagnosis.rule.fallback and diagnosis.effect in BREAKING


def findings(
    interpretation: Interpretation, claims: Claims, options: ReadOptions, origin: Origin, suggest: Suggest | None
) -> dict[Place, Finding]:
    """Return the findings of claims in code of that origin."""
    calls = {place: interpretation.compile_calls(contexts) for place, contexts in claims.contexts.items()}
    reported = [
        place
        for place, diagnosis in sorted(claims.by_place.items(), key=lambda item: item[0])
        if _is_reported(diagnosis, options) and not (diagnosis.claim.of_size and _are_dynamic(calls[place]))
    ]
    spots = {place: _spot(interpretation, claims.by_place[place], options.root) for place in reported}
    suspects = {}
    if suggest is not None and origin == "own":
        for place, spot in spots.items():
            rule = claims.by_place[place].rule
            if rule.may_autofix and not spot.source.cells:
                suspects[place] = FixCandidate(spot.shown, rule, spot.source, spot.span)
    suggested = suggest(tuple(suspects.values())) if suggest is not None and suspects else ()
    made: dict[Place, Finding] = {}
    repeats: dict[str, int] = {}
    reach = _Reach(interpretation)
    for place, spot in spots.items():
        interpretation.interpreter.program.library.go_on()
        diagnosis = claims.by_place[place]
        contexts = claims.contexts[place]
        way = _way(reach, diagnosis, contexts)
        finding = _finding(diagnosis, spot, way.conditions, origin)
        finding = dataclasses.replace(
            finding,
            reached_by=way.symbols,
            break_effect=(interpretation.break_effects.effect(contexts) if finding.effect in SPLITTING else None),
        )
        finding = _under_options(finding, diagnosis.claim, calls[place])
        count = repeats.get(finding.fingerprint, 0)
        repeats[finding.fingerprint] = count + 1
        if count:
            finding = dataclasses.replace(finding, fingerprint=f"{finding.fingerprint}-{count + 1}")
        made[place] = finding
    for (place, suspect), edits in zip(suspects.items(), suggested, strict=True):
        fix = made[place].fix
        if edits and fix is not None:
            diff = patch({suspect.path: suspect.source.text}, edits) or None
            # only edits that are safe by construction were requested
            fix = dataclasses.replace(fix, safe=True, diff=diff, edits=edits)
            made[place] = dataclasses.replace(made[place], fix=fix)
    return made


def _is_reported(diagnosis: Diagnosis, options: ReadOptions) -> bool:
    return diagnosis.confidence != "low" or options.low or bool(diagnosis.types and not diagnosis.hidden)


def _way(reach: _Reach, diagnosis: Diagnosis, contexts: Iterable[int]) -> CallPath:
    """Return the call path to the place of a claim; by the context of the claim itself if that is reached at all."""
    where = diagnosis.fact.where
    ways = (reach.way(c, where) for c in (where.context, *sorted(contexts)))
    return next((way for way in ways if way is not None), CallPath((), ()))


@dataclass(frozen=True)
class _Spot:
    """The position at which a claim is shown."""

    shown: str
    """The path of the file."""
    source: Source
    span: Span
    written: str


def _spot(interpretation: Interpretation, diagnosis: Diagnosis, root: Path) -> _Spot:
    fact, node = diagnosis.fact, diagnosis.fact.node
    concrete = interpretation.concrete(fact.where.path)
    source = concrete.source
    first, last = diagnosis.lines
    begins, ends = extent(fact)
    end = ends.end_col_offset or 0
    if isinstance(node, DEFINITIONS):
        end = len(f"{'class' if isinstance(node, ast.ClassDef) else 'def'} {node.name}") + node.col_offset
    span = first, source.column(first, begins.col_offset), last, source.column(last, end)
    written = concrete.written(*span) if begins is node else ast.unparse(node)
    return _Spot(display_path(fact.where.path, str(root)), source, span, written)


def _finding(diagnosis: Diagnosis, spot: _Spot, conditions: tuple[Condition, ...], origin: Origin) -> Finding:
    """Return the finding of a claim, but for how it is reached, what its break does and what its change is; `conditions`
    of the calls on the way."""
    rule, fact = diagnosis.rule, diagnosis.fact
    line, column, end_line, end_column = spot.span
    return Finding(
        rule=rule.code,
        name=rule.name,
        effect=diagnosis.effect,
        level=diagnosis.level,
        confidence=diagnosis.confidence,
        message=diagnosis.claim.message,
        path=spot.shown,
        line=line,
        column=column,
        end_line=end_line,
        end_column=end_column,
        symbol=fact.where.symbol,
        origin=origin,
        status="predicted",
        gb_ids=rule.gb_ids,
        targets=(),
        fingerprint=fingerprint(rule.code, spot.shown, fact.where.symbol, spelled(fact.node)),
        fix=Fix(
            title=_first_sentence(rule.instead),
            safe=False,
            diff=None,
            verified=None,
            edits=(),
            settings={diagnosis.claim.suppressed_by_config: True} if diagnosis.claim.suppressed_by_config else {},
        ),
        evidence=tuple(Evidence("static", text) for text in _evidence(diagnosis, spot.written, conditions)),
        dtypes=() if diagnosis.hidden or diagnosis.confidence != "low" else diagnosis.types,
    )


def _are_dynamic(calls: Sequence[CompileCall | None]) -> bool:
    """Return whether the user's code compiles everything in these entries with `dynamic=True`."""
    return bool(calls) and all(call is not None and call.value("dynamic") is True for call in calls)


def _under_options(finding: Finding, claim: Claim, calls: Sequence[CompileCall | None]) -> Finding:
    """Return the finding as the options of the calls that compile its code make it: under `fullgraph=True` a break is an
    error, and under `dynamic=False` a size that grows recompiles in each call."""
    if finding.confidence == "low":
        return finding
    fixed = next((call for call in calls if call is not None and call.value("dynamic") is False), None)
    if claim.of_size and fixed is not None:
        why = f"in each call, because {fixed.path}:{fixed.line} compiles it with dynamic=False"
        return dataclasses.replace(finding, level="error", message=f"{finding.message} {why}")
    strict = next((call for call in calls if call is not None and call.is_fullgraph), None)
    if strict is None or not (finding.effect in BREAKING or finding.effect == "intent"):
        return finding
    why = f"an error, because {strict.path}:{strict.line} compiles it with fullgraph=True"
    return dataclasses.replace(finding, level="error", message=f"{finding.message}; {why}", raises_at=strict)


class _Question:
    """The fields of a fact that rules may query: all but the number of its context. Half of all facts differ in that
    alone."""

    def __init__(self) -> None:
        self._names: dict[type, tuple[str, ...]] = {}

    def __call__(self, fact: Fact) -> tuple[object, ...]:
        kind = type(fact)
        if kind not in self._names:
            names = (field.name for field in dataclasses.fields(fact))
            self._names[kind] = tuple(name for name in names if name != "where")
        where = fact.where
        values = [getattr(fact, name) for name in self._names[kind]]
        return kind, where.enclosing, where.confidence, where.conditional, *values


class _Reach:
    """The confidence that a usual call reaches a place: lower the more conditions nothing decides.

    Measured on 401 models of packages (fixtures/accuracy/unseen-sixteenth to -eighteenth, both halves), read by class: of
    the claims below three or four such tests in installed code a run confirmed 8 and reached none of the others; of those
    below more it reached one, which did not break. A project's own options are meant to be used; those of an installed
    package mostly are not."""

    def __init__(self, interpretation: Interpretation) -> None:
        self._ways = interpretation.ways
        self._known: dict[tuple[int, tuple[Condition, ...]], Confidence] = {}

    def __call__(self, where: Where) -> Confidence:
        key = where.context, where.conditions
        if key not in self._known:
            self._known[key] = self._on(self.way(where.context, where), where)
        return self._known[key]

    def way(self, context: int, where: Where) -> CallPath | None:
        """Return the call path to a context for code at `where`: of the paths from several models the first with the
        highest confidence; None if it is not reached."""
        ways = [ways[context] for ways in self._ways if context in ways]
        return max(ways, key=lambda way: CONFIDENCES.index(self._on(way, where)), default=None)

    def _on(self, way: CallPath | None, where: Where) -> Confidence:
        open_ones = undecided((*(way.conditions if way else ()), *where.conditions))
        return self._of(len(open_ones), where.path)

    def _of(self, tests: int, path: str) -> Confidence:
        if tests < 3:
            return "high"
        return "low" if tests > 4 and is_installed(path) else "medium"


def _claims_of_fact(
    rules: Iterable[Rule], fact: Fact, settings: DynamoSettings, tables: Tables
) -> Iterator[tuple[Rule, Claim]]:
    """Yield the claims of each rule about a fact that hold under the version of torch and the files' settings of
    Dynamo."""
    for rule in rules:
        found = rule.check(fact)
        if found is None or (isinstance(fact, Call) and fact.function in settings.left_out):
            continue
        for claim in (found,) if isinstance(found, Claim) else found:
            if not tables.holds(rule.code, claim.form):
                continue
            if claim.suppressed_by_config in settings.unsure:
                sure = min(claim.confidence or "high", "medium", key=CONFIDENCES.index)
                yield rule, dataclasses.replace(claim, confidence=sure)
            elif claim.suppressed_by_config not in settings.flags:
                yield rule, claim


# how sure


def confidence_of(fact: Fact, claim: Claim, rule: Rule) -> Confidence:
    """Return the lowest confidence of: the code runs, the values are tensors, the rule is right."""
    levels: list[Confidence] = [fact.where.confidence]
    if rule.side_output_only and not claim.computes and _is_of_some_calls(fact.where):
        levels.append("low")
    if claim.confidence is not None:
        levels.append(claim.confidence)
    for field in dataclasses.fields(fact) if not claim.regardless else ():
        levels.extend(_sureness(getattr(fact, field.name)))
    return min(levels, key=CONFIDENCES.index)


def _is_of_some_calls(where: Where) -> bool:
    """Return whether the place is below a test that the source does not decide, or below one for a certain size: a user
    for whom that is false has passed another than the usual one."""
    tests = (condition.test for condition in where.conditions if condition.decided_by == "size")
    return where.conditional or any(map(_OF_ONE_SIZE.search, tests))


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
        others = [v for v in options(likely(value)) if not isinstance(v, Tensor) and v != NONE]
        if others:  # what was joined here is as likely something else
            flags = (Const(False), Const(True))  # of `flag and tensor`, `flag or tensor`
            yield "medium" if all(isinstance(v, Unknown) or v in flags for v in others) else "low"
        elif any(not isinstance(v, Tensor) and v != NONE for v in options(value)):
            yield "medium"  # what somebody passes in place of the default may be


# in words


def _evidence(diagnosis: Diagnosis, written: str, conditions: tuple[Condition, ...]) -> Iterator[str]:
    """Why the static pass says so, in plain words, and what must hold for the place to be reached."""
    fact = diagnosis.fact
    values = [getattr(fact, name, None) for name in ("value", "receiver", "base", "args")]
    flat = [v for value in values for v in (value if isinstance(value, tuple) else (value,)) if v is not None]
    shown = written if len(written) <= 80 else written[:77] + "..."
    tensors = [t for v in flat if (t := tensor_of(v))]
    unsure = "" if all(tensor.sure for tensor in tensors) else ", as far as the source shows"
    if isinstance(fact, (Test, Loop)) and tensors:
        yield f"`{shown}` is a tensor{unsure}"
    elif tensors:
        yield f"`{shown}` is given a tensor{unsure}"
    else:
        yield f"`{shown}` is reached by code that gets compiled"
    if diagnosis.hidden:
        yield "an earlier break hides it: no tensor is in sight here, so Dynamo does not look at the rest"
    open_ones = [c for c in (*conditions, *fact.where.conditions) if c.usual is not True]
    for condition in list(dict.fromkeys(open_ones))[-MAX_CONDITIONS:]:
        word = "only if" if condition.holds else "unless"
        why = "not so by default" if condition.usual is False else DECIDED_BY[condition.decided_by]
        why = f"only in {in_words(condition.types)}" if condition.types else why
        yield f"reached {word} `{condition.test}`" + (f" ({why})" if why else "")


def _first_sentence(text: str) -> str:
    flat = " ".join(text.split())
    head = flat.split("; ")[0].split(". ")[0]
    return head.rstrip(".:") if head else "See the rule"
