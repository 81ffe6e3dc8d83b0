"""Turn facts into claims and claims into findings. Only this module decides the confidence of a finding."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

from tcready.edits import patch
from tcready.identity import fingerprint, spelled
from tcready.options import ReadOptions
from tcready.schema.edit import Edit
from tcready.schema.fix import Fix
from tcready.schema.paths import display_path, is_installed
from tcready.schema.static import Evidence, Finding
from tcready.schema.words import BREAKING, Confidence, Effect, Level, Origin, in_words
from tcready.static.analyse import Interpretation
from tcready.static.break_effect import Cause, cause_at, is_apart
from tcready.static.engine.facts import (
    LEAKED_FLAG,
    About,
    Alone,
    Call,
    Condition,
    Consumed,
    Fact,
    InArguments,
    Loop,
    OfNew,
    Test,
    Where,
    extent,
    undecided,
)
from tcready.static.engine.values import (
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
from tcready.static.graph import Way
from tcready.static.index import FunctionInfo, own_nodes
from tcready.static.parts import CONFIDENCES
from tcready.static.rule import Claim, Rule, Span, Suspect
from tcready.static.settings import Settings
from tcready.static.source import Source
from tcready.static.torch_tables import Tables
from tcready.static.unmet import Site

if TYPE_CHECKING:
    from collections.abc import Callable

Suggest: TypeAlias = "Callable[[Sequence[Suspect]], Iterable[tuple[Edit, ...]]]"
"""The edits of the change that each suspect's rule suggests, none if it suggests none that is safe; in their order."""
Place: TypeAlias = "tuple[str, int, int, str]"
"""Where a rule claims something: (file, line, byte column, rule code)."""
MAX_CONDITIONS = 3
"""Of what must hold for a place to be reached, so many are told: those nearest to it."""
DECIDED_BY: Mapping[About, str] = MappingProxyType(
    {
        "argument": "how it is called decides",
        "configuration": "its configuration decides",
        "unknown": "",
        "size": "the size of a tensor decides",
        "data": "the values in a tensor decide",
    }
)
_OF_ONE_SIZE = re.compile(r"^match |^[^<>]*[!=]=[^<>]*$")
"""A test whether a size is this or that (a case of a `match` too), and no other test of sizes."""
MADE = (ast.GeneratorExp, ast.ListComp, ast.SetComp, ast.DictComp)
DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
APART = (Alone, Consumed, InArguments, OfNew)
"""Facts of what breaks as another break does, and stands in no constructor."""
SPLITTING: frozenset[Effect] = frozenset({"graph_break", "frame_skip"})
"""Effects that leave regions around them: what cannot be compiled at all leaves none."""


@dataclass(frozen=True)
class Judged:
    """What a rule claims at one place, as the surest fact has it."""

    rule: Rule
    claim: Claim
    fact: Fact
    confidence: Confidence
    hidden: bool = False
    """An earlier break ends the trace before this one is met."""
    types: tuple[FloatType, ...] = ()
    """It is improbable only because the model does not compute in one of these types."""

    @property
    def effect(self) -> Effect:
        return self.claim.effect or self.rule.effect

    @property
    def level(self) -> Level:
        uncertain = self.confidence == "low" or self.rule.unproved
        return "note" if uncertain else self.claim.level or self.rule.level

    @property
    def lines(self) -> tuple[int, int]:
        """First and last line of what the finding spans: of a class or function the header alone, never a body."""
        begins, ends = extent(self.fact)
        header = isinstance(ends, DEFINITIONS)
        return begins.lineno, ends.lineno if header else ends.end_lineno or ends.lineno


@dataclass(frozen=True)
class Judgements:
    """What rules say of each fact by itself. A fact that is found again after an edit, the same object, is judged as it
    was: what a rule may ask of it has not changed."""

    settings: Settings = dataclasses.field(default_factory=Settings)
    of: dict[int, tuple[Fact, list[tuple[Rule, Claim, Confidence]]]] = dataclasses.field(default_factory=dict)
    """By the `id` of the fact."""


@dataclass(frozen=True)
class Claims:
    """What rules claim of one interpretation."""

    by_place: dict[Place, Judged] = dataclasses.field(default_factory=dict)
    contexts: dict[Place, dict[int, Cause]] = dataclasses.field(default_factory=dict)
    """In which contexts each is claimed, with what makes the whole function eager there."""
    judgements: Judgements = dataclasses.field(default_factory=Judgements)
    """For the reading after the next edit."""


def claims(
    interpretation: Interpretation,
    rules: Sequence[Rule],
    wanted: Origin,
    before: Judgements | None = None,
) -> Claims:
    """What rules claim of the facts in code of the wanted origin; `before` is what they said of each before the last
    edit."""
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
    settings = interpretation.settings if facts else Settings()
    tables = interpreter.operations.tables
    known_of = before.of if before is not None and before.settings == settings else {}
    found = Claims(judgements=Judgements(settings))
    judged: dict[tuple[object, ...], list[tuple[Rule, Claim, Confidence]]] = {}
    question = _Question()
    reach = _Reach(interpretation)
    for fact in facts:
        judgement = known_of.get(id(fact))
        if judgement is None:
            same = question(fact)
            if same not in judged:
                judged[same] = [
                    (rule, claim, confidence_of(fact, claim, rule))
                    for rule, claim in _claimed(listening[type(fact)], fact, settings, tables)
                ]
            judgement = fact, judged[same]
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
                found.by_place[place] = Judged(rule, claim, fact, confidence, types=types)
    taken = {place[:3] for place, judged in found.by_place.items() if _claims_a_break(judged)}
    for place in [p for p, judged in found.by_place.items() if judged.rule.fallback and p[:3] in taken]:
        del found.by_place[place], found.contexts[place]
    _raise_what_every_way_meets(interpretation, reach, found)
    _lower_what_is_not_met(interpretation, found)
    _raise_what_leaves_the_graph(interpretation, found)
    _keep_what_follows(interpretation, found)
    if any(isinstance(judged.fact, OfNew) for judged in found.by_place.values()):
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
    """The claims that stand in other functions than these, which are given by file and symbol."""
    kept = {
        place: judged
        for place, judged in claims.by_place.items()
        if (judged.fact.where.path, judged.fact.where.symbol) not in functions
    }
    return Claims(kept, {place: claims.contexts[place] for place in kept})


def _raise_what_every_way_meets(interpretation: Interpretation, reach: _Reach, found: Claims) -> None:
    """If each way through the tests of a function that nothing tells comes by a break, one of these is met: none is
    improbable because the others may be met in its place, if its function is reached."""
    by_context: dict[int, dict[Place, tuple[tuple[str, bool], ...]]] = {}
    for place, judged in found.by_place.items():
        conditions = judged.fact.where.conditions
        if (
            judged.effect in SPLITTING
            and not judged.rule.follows
            and all(c.usual is not False for c in conditions)
        ):
            way = tuple((c.test, c.holds) for c in conditions if c.usual is None)
            by_context.setdefault(judged.fact.where.context, {})[place] = way
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
        judged = found.by_place[place]
        sure = entered[judged.fact.where.context]
        where = dataclasses.replace(judged.fact.where, confidence=sure, conditional=False)
        alike = dataclasses.replace(judged.fact, where=where)
        reached = reach(dataclasses.replace(where, conditions=()))
        own = confidence_of(alike, judged.claim, judged.rule)
        sure = min("medium", reached, own, key=CONFIDENCES.index)
        found.by_place[place] = dataclasses.replace(judged, confidence=sure)


def _tested_on_every_way(
    ways: frozenset[tuple[tuple[str, bool], ...]], before: tuple[tuple[str, bool], ...] = ()
) -> frozenset[str]:
    """Of these places, each given by the tests before it and how they come out, the first tests behind `before` of which
    either outcome leads to one; nothing if no test does."""
    here = len(before)
    tests = {way[here][0] for way in ways if len(way) > here and way[:here] == before}

    def is_met(way: tuple[tuple[str, bool], ...]) -> bool:
        return way in ways or bool(_tested_on_every_way(ways, way))

    return frozenset(test for test in tests if all(is_met((*before, (test, side))) for side in (True, False)))


def _lower_what_is_not_met(interpretation: Interpretation, found: Claims, *, following: bool = False) -> None:
    """A break that an earlier one hides in every function it stands in is told with low confidence; `following`: so is
    what stands behind a method of a new object that cannot be handed over."""
    splitting = {
        place: judged
        for place, judged in found.by_place.items()
        if judged.effect in SPLITTING
        and (not judged.rule.follows or (following and isinstance(judged.fact, OfNew)))
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
                frozenset(judged.fact.where.conditions),
                judged.confidence == "high",
                judged.effect == "frame_skip"
                and judged.confidence != "low"
                and judged.fact.where.confidence == "high",
                len(judged.fact.where.enclosing),
                read,
                comprehension=inner,
                compiled="function" in judged.fact.where.enclosing,
            )
            for read in (_attributes(judged.fact),)
            for inner in (_comprehension(interpretation, judged.fact),)
            for last in (assigned(judged.fact),)
            for context in found.contexts[place]
        ]
        for place, judged in splitting.items()
    }
    unmet = interpretation.unmet(site for each in sites.values() for site in each)
    for place, judged in splitting.items():
        if not judged.rule.follows and all(map(unmet, sites[place])):
            found.by_place[place] = dataclasses.replace(judged, confidence="low", hidden=True)


def _raise_what_leaves_the_graph(interpretation: Interpretation, found: Claims) -> None:
    """A tensor that was given the flag breaks where it leaves the graph: at a break behind which its name is read."""
    flagged = {
        place: judged
        for place, judged in found.by_place.items()
        if isinstance(judged.fact, Call) and judged.fact.gb_id == LEAKED_FLAG and not judged.hidden
    }
    for place, judged in flagged.items():
        function = interpretation.interpreter.contexts[judged.fact.where.context].function
        kept = _kept_as(judged.fact.node, function) if function is not None else None
        if kept is None:
            continue
        made, reads = kept
        sure: Confidence = "low"
        for other, breaking in found.by_place.items():
            end = breaking.fact.node.end_lineno or other[1]
            same = other[0] == place[0] and not found.contexts[other].keys().isdisjoint(found.contexts[place])
            if (
                same
                and breaking.effect in SPLITTING
                and made < other[1]
                and any(line >= end for line in reads)
            ):
                sure = max(sure, breaking.confidence, key=CONFIDENCES.index)
        sure = min("medium", sure, key=CONFIDENCES.index)
        if CONFIDENCES.index(sure) > CONFIDENCES.index(judged.confidence):
            found.by_place[place] = dataclasses.replace(judged, confidence=sure)


def _kept_as(node: ast.AST, function: FunctionInfo) -> tuple[int, list[int]] | None:
    """On which line a function gives a name what a call makes, and on which it reads that, up to where the name is given
    something else; moving it to a device leaves it what it is."""
    assigned = [n for n in own_nodes(function.node) if isinstance(n, ast.Assign) and len(n.targets) == 1]
    first = next((n for n in assigned if any(part is node for part in _moved(n.value))), None)
    if first is None or not isinstance(first.targets[0], ast.Name):
        return None
    name = first.targets[0].id
    again = [
        n.lineno
        for n in assigned
        if n.lineno > first.lineno
        and isinstance(n.targets[0], ast.Name)
        and n.targets[0].id == name
        and not any(isinstance(part, ast.Name) and part.id == name for part in _moved(n.value))
    ]
    last = min(again, default=function.node.end_lineno or first.lineno)
    named = (n for n in own_nodes(function.node) if isinstance(n, ast.Name) and n.id == name)
    reads = [n.lineno for n in named if isinstance(n.ctx, ast.Load) and first.lineno < n.lineno <= last]
    return first.end_lineno or first.lineno, reads


def _moved(value: ast.AST) -> Iterator[ast.AST]:
    """An expression, and what it moves to a device or gives another type."""
    yield value
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        if value.func.attr not in ("to", "cuda", "cpu", "type_as"):
            return
        value = value.func.value
        yield value


def _keep_what_follows(interpretation: Interpretation, found: Claims) -> None:
    """What breaks where Python runs it alone, a constructor, a generator or a comprehension, breaks as surely as another
    break makes Python do so, and else not."""
    following = {place: judged for place, judged in found.by_place.items() if judged.rule.follows}
    if not following:
        return
    surest: dict[tuple[Place, int], Confidence] = {}
    for least in ("medium", "high"):
        standing: dict[int, Cause] = {}
        points: dict[int, list[tuple[int, Cause]]] = {}
        for place, judged in found.by_place.items():
            sure = CONFIDENCES.index(judged.confidence) >= CONFIDENCES.index(least)
            if sure and judged.effect in SPLITTING and place not in following:
                # of a package nobody uses most, and much would follow from one break that is not met
                met = not (is_installed(place[0]) and undecided(judged.fact.where.conditions))
                for context, cause in found.contexts[place].items():
                    standing[context] = standing.get(context) or cause
                    if met:
                        points.setdefault(context, []).append((place[1], cause))
        run = _run_by_python(interpretation, found, following, standing, points)
        surest.update(dict.fromkeys(run, least))
    for place, judged in following.items():
        contexts = {c: cause for c, cause in found.contexts[place].items() if (place, c) in surest}
        if contexts:
            strongest = max((surest[place, c] for c in contexts), key=CONFIDENCES.index)
            confidence = min(judged.confidence, strongest, key=CONFIDENCES.index)
            found.by_place[place] = dataclasses.replace(judged, confidence=confidence)
            found.contexts[place] = contexts
        else:
            del found.by_place[place], found.contexts[place]


def _run_by_python(
    interpretation: Interpretation,
    found: Claims,
    following: Mapping[Place, Judged],
    standing: Mapping[int, Cause],
    points: Mapping[int, Sequence[tuple[int, Cause]]],
) -> set[tuple[Place, int]]:
    """In which contexts Python runs what stands at these places itself, if breaks stand in some: `points` are those that
    are met for certain, with their lines."""
    effects = interpretation.break_effects
    alone = {place for place, judged in following.items() if isinstance(judged.fact, APART)}
    constructors = {c for place in following if place not in alone for c in found.contexts[place]}
    run = effects.run_by_python(standing, constructors)
    made = {
        (place, c) for place in following if place not in alone for c in found.contexts[place] if c in run
    }
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
    """The attributes that are read for what a fact tells, in its own expression: what is read first."""
    nodes = (node for node in ast.walk(fact.node) if node is not fact.node)
    return frozenset(node.attr for node in nodes if isinstance(node, ast.Attribute))


def _comprehension(interpretation: Interpretation, fact: Fact) -> tuple[int, int] | None:
    """Where the innermost comprehension begins that runs a fact's expression as a function of its own."""
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
    """What stands in the places that a function assigns to, with the line on which the assigned value ends, if that is
    another: a place is worked out once the value is."""
    return {
        part: node.value.end_lineno
        for node in (own_nodes(function.node) if function is not None else ())
        if isinstance(node, ast.Assign) and node.value.end_lineno and node.value.end_lineno > node.lineno
        for target in node.targets
        for part in ast.walk(target)
    }


def _holds(whole: ast.expr, part: ast.AST) -> bool:
    return any(node is part for node in ast.walk(whole))


def _claims_a_break(judged: Judged) -> bool:
    return not judged.rule.fallback and judged.effect in BREAKING


def findings(
    interpretation: Interpretation,
    claims: Claims,
    options: ReadOptions,
    origin: Origin,
    suggest: Suggest | None,
) -> dict[Place, Finding]:
    """The findings of what is claimed in code of that origin."""
    told = [place for place in sorted(claims.by_place) if _is_told(claims.by_place[place], options)]
    spots = {place: _spot(interpretation, claims.by_place[place], options.root) for place in told}
    suspects = {}
    if suggest is not None and origin == "own":
        for place, spot in spots.items():
            rule = claims.by_place[place].rule
            if rule.often_safe and not spot.source.cells:
                suspects[place] = Suspect(spot.shown, rule, spot.source, spot.span)
    suggested = suggest(tuple(suspects.values())) if suggest is not None and suspects else ()
    made: dict[Place, Finding] = {}
    repeats: dict[str, int] = {}
    reach = _Reach(interpretation)
    for place, spot in spots.items():
        interpretation.interpreter.program.library.go_on()
        judged = claims.by_place[place]
        contexts = claims.contexts[place]
        way = _way(reach, judged, contexts)
        finding = _finding(judged, spot, way.conditions, origin)
        finding = dataclasses.replace(
            finding,
            reached_by=way.symbols,
            break_effect=(
                interpretation.break_effects.effect(contexts) if finding.effect in SPLITTING else None
            ),
        )
        count = repeats.get(finding.fingerprint, 0)
        repeats[finding.fingerprint] = count + 1
        if count:
            finding = dataclasses.replace(finding, fingerprint=f"{finding.fingerprint}-{count + 1}")
        made[place] = finding
    for (place, suspect), edits in zip(suspects.items(), suggested, strict=True):
        fix = made[place].fix
        if edits and fix is not None:
            diff = patch({suspect.path: suspect.source.text}, edits) or None
            # it was asked for what is safe by construction alone
            fix = dataclasses.replace(fix, safe=True, diff=diff, edits=edits)
            made[place] = dataclasses.replace(made[place], fix=fix)
    return made


def _is_told(judged: Judged, options: ReadOptions) -> bool:
    return judged.confidence != "low" or options.low or bool(judged.types and not judged.hidden)


def _way(reach: _Reach, judged: Judged, contexts: Iterable[int]) -> Way:
    """How the place of a claim is reached; of the context that the claim is made in, if that is reached at all."""
    where = judged.fact.where
    ways = (reach.way(c, where) for c in (where.context, *sorted(contexts)))
    return next((way for way in ways if way is not None), Way((), ()))


@dataclass(frozen=True)
class _Spot:
    """What a claim is shown at."""

    shown: str
    """The path of the file."""
    source: Source
    span: Span
    written: str


def _spot(interpretation: Interpretation, judged: Judged, root: Path) -> _Spot:
    fact, node = judged.fact, judged.fact.node
    concrete = interpretation.concrete(fact.where.path)
    source = concrete.source
    first, last = judged.lines
    begins, ends = extent(fact)
    end = ends.end_col_offset or 0
    if isinstance(node, DEFINITIONS):
        end = len(f"{'class' if isinstance(node, ast.ClassDef) else 'def'} {node.name}") + node.col_offset
    span = first, source.column(first, begins.col_offset), last, source.column(last, end)
    written = concrete.written(*span) if begins is node else ast.unparse(node)
    return _Spot(display_path(fact.where.path, str(root)), source, span, written)


def _finding(judged: Judged, spot: _Spot, conditions: tuple[Condition, ...], origin: Origin) -> Finding:
    """The finding of a claim, but for how it is reached, what its break does and what its change is; `conditions` of the
    calls on the way."""
    rule, fact = judged.rule, judged.fact
    line, column, end_line, end_column = spot.span
    return Finding(
        rule=rule.code,
        name=rule.name,
        effect=judged.effect,
        level=judged.level,
        confidence=judged.confidence,
        message=judged.claim.message,
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
            settings={judged.claim.unless: True} if judged.claim.unless else {},
        ),
        evidence=tuple(Evidence("static", text) for text in _evidence(judged, spot.written, conditions)),
        dtypes=() if judged.hidden or judged.confidence != "low" else judged.types,
    )


class _Question:
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
        return kind, where.enclosing, where.confidence, where.conditional, *values


class _Reach:
    """How sure it is that a usual call comes by a place: the less, the more must hold that nothing in sight decides.

    Measured on 401 models of packages (fixtures/accuracy/unseen-sixteenth to -eighteenth, both halves), read by class: of
    the claims behind three or four such tests in installed code a run bore out 8 and came by none of the others; of those
    behind more it came by one, which did not break. A project's own options are there to be used, those of an installed
    package mostly are not."""

    def __init__(self, interpretation: Interpretation) -> None:
        self._ways = interpretation.ways
        self._known: dict[tuple[int, tuple[Condition, ...]], Confidence] = {}

    def __call__(self, where: Where) -> Confidence:
        key = where.context, where.conditions
        if key not in self._known:
            self._known[key] = self._on(self.way(where.context, where), where)
        return self._known[key]

    def way(self, context: int, where: Where) -> Way | None:
        """How a context is reached for what stands there as `where` does: of the ways from several models the first that
        is surest; None if it is not reached."""
        ways = [ways[context] for ways in self._ways if context in ways]
        return max(ways, key=lambda way: CONFIDENCES.index(self._on(way, where)), default=None)

    def _on(self, way: Way | None, where: Where) -> Confidence:
        open_ones = undecided((*(way.conditions if way else ()), *where.conditions))
        return self._of(len(open_ones), where.path)

    def _of(self, tests: int, path: str) -> Confidence:
        if tests < 3:
            return "high"
        return "low" if tests > 4 and is_installed(path) else "medium"


def _claimed(
    rules: Iterable[Rule], fact: Fact, settings: Settings, tables: Tables
) -> Iterator[tuple[Rule, Claim]]:
    """The claims of each rule about a fact that hold under the version of torch and the files' settings of Dynamo."""
    for rule in rules:
        found = rule.check(fact)
        if found is None or (isinstance(fact, Call) and fact.function in settings.left_out):
            continue
        for claim in (found,) if isinstance(found, Claim) else found:
            if not tables.holds(rule.code, claim.form):
                continue
            if claim.unless in settings.unsure:
                sure = min(claim.confidence or "high", "medium", key=CONFIDENCES.index)
                yield rule, dataclasses.replace(claim, confidence=sure)
            elif claim.unless not in settings.flags:
                yield rule, claim


# how sure


def confidence_of(fact: Fact, claim: Claim, rule: Rule) -> Confidence:
    """The least of: how sure the code runs, how sure the values are tensors, what the rule says."""
    levels: list[Confidence] = [fact.where.confidence]
    if rule.incidental and not claim.computes and _is_of_some_calls(fact.where):
        levels.append("low")
    if claim.confidence is not None:
        levels.append(claim.confidence)
    for field in dataclasses.fields(fact) if not claim.regardless else ():
        levels.extend(_sureness(getattr(fact, field.name)))
    return min(levels, key=CONFIDENCES.index)


def _is_of_some_calls(where: Where) -> bool:
    """Whether a test that the source does not decide stands above, or one whether a size is this or that: who is told
    that it is not has given another than the usual one."""
    asked = (condition.test for condition in where.conditions if condition.about == "size")
    return where.conditional or any(map(_OF_ONE_SIZE.search, asked))


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


def _evidence(judged: Judged, written: str, conditions: tuple[Condition, ...]) -> Iterator[str]:
    """Why the static pass says so, in plain words, and what must hold for the place to be reached."""
    fact = judged.fact
    values = [getattr(fact, name, None) for name in ("value", "receiver", "base", "args")]
    flat = [v for value in values for v in (value if isinstance(value, tuple) else (value,)) if v is not None]
    shown = written if len(written) <= 80 else written[:77] + "..."
    tensors = [t for v in flat if (t := tensor_of(v))]
    unsure = "" if all(tensor.sure for tensor in tensors) else ", as far as the source tells"
    if isinstance(fact, (Test, Loop)) and tensors:
        yield f"`{shown}` is a tensor{unsure}"
    elif tensors:
        yield f"`{shown}` is given a tensor{unsure}"
    else:
        yield f"`{shown}` is reached by code that gets compiled"
    if judged.hidden:
        yield "an earlier break hides it: no tensor is in sight here, so Dynamo does not look at the rest"
    open_ones = [c for c in (*conditions, *fact.where.conditions) if c.usual is not True]
    for condition in list(dict.fromkeys(open_ones))[-MAX_CONDITIONS:]:
        word = "only if" if condition.holds else "unless"
        why = "not so by default" if condition.usual is False else DECIDED_BY[condition.about]
        why = f"only in {in_words(condition.types)}" if condition.types else why
        yield f"reached {word} `{condition.test}`" + (f" ({why})" if why else "")


def _first_sentence(text: str) -> str:
    flat = " ".join(text.split())
    head = flat.split("; ")[0].split(". ")[0]
    return head.rstrip(".:") if head else "See the rule"
