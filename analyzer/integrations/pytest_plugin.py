"""The pytest plugin: the fixture and the marker `compile_ready`.

    def test_net_compiles(compile_ready):
        compile_ready(Net(), torch.randn(2, 8))

    @pytest.mark.compile_ready(mode="train", min_coverage=0.9)
    def test_more(compile_ready):
        seen = compile_ready(Net(), torch.randn(2, 8), also=[torch.randn(3, 8)], dynamic=True)
        assert len(seen.graphs) == 2

pytest loads this file wherever tcready is installed: nothing but pytest is imported before the fixture is called.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import pytest

if TYPE_CHECKING:
    from tcready.schema.enums import Origin
    from tcready.schema.observation import Observation
    from tcready.schema.run import BreakSite, SkippedFrame

NAME = "compile_ready"


@dataclass(frozen=True)
class Options:
    """The keywords of the fixture and the marker."""

    mode: Literal["infer", "train"] = "infer"
    """`infer`: eval() and no gradients. `train`: train() with gradients, which parity compares as well."""
    also: Sequence[Any] = ()
    """Further calls: each one argument, a tuple of arguments, a dict of keyword arguments, or `(args, kwargs)`. Each
    is compiled alone, and all in sequence by one compiled callable, which shows recompiles."""
    dynamic: bool | None = None
    """`torch.compile(dynamic=...)`."""
    max_recompiles: int = 0
    """Maximum number of functions that recompile, counted once for each call in which they do."""
    allow: str | Sequence[str] | None = ()
    """Breaks that do not fail: `GB0059`; `TCR301`, for all IDs that the rule predicts; a glob of `file:line` or
    `file`, such as `src/net.py:*`; or a part of the reason."""
    min_coverage: float | None = None
    """The least share of operations in graphs, 0 to 1."""
    fullgraph: bool = False
    """`fullgraph=True` must compile as well: it allows no break at all, in any code."""
    parity: bool = True
    """The outputs must equal those of eager code."""
    rtol: float | None = None
    atol: float | None = None
    """Fixed tolerances of parity; give both or neither. Without them, outputs must agree up to rounding."""
    third_party: bool = False
    """Count breaks in installed packages too."""
    own: str | Sequence[str] | None = ()
    """Packages that count as own code though they are installed. That of the module's class always does, and so does
    that of a module inside one of torch's own (`nn.Sequential`)."""


OPTIONS = {field.name: field for field in dataclasses.fields(Options)}


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", f"{NAME}({', '.join(f'{name}=' for name in OPTIONS)}): defaults of the fixture {NAME}."
    )


@pytest.fixture(name=NAME)
def _compile_ready(request: pytest.FixtureRequest) -> Callable[..., Observation]:
    """compile_ready(module, *args, **kwargs): fail if torch.compile breaks your own code; return the observation."""
    __tracebackhide__ = True
    marked: dict[str, Any] = {}
    for mark in reversed(list(request.node.iter_markers(NAME))):  # the closest comes last
        if mark.args or not mark.kwargs.keys() <= OPTIONS.keys():
            wrong = ", ".join([*map(repr, mark.args), *(set(mark.kwargs) - set(OPTIONS))])
            _fail(f"the marker takes no {wrong}: its options are {', '.join(OPTIONS)}")
        marked |= mark.kwargs
    root = str(request.config.rootpath)

    def compile_ready(module: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Observation:
        """Compile a copy of `module` for the call `module(*args, **kwargs)`, and fail with what breaks.

        `kwargs` may include the fields of `Options`. Returns the Observation.
        """
        __tracebackhide__ = True
        given = {name: kwargs.pop(name) for name in OPTIONS if name in kwargs}
        _reject_ambiguous(module, given)
        options = _checked({**marked, **given})
        calls = list(options.also)
        if args or kwargs or not calls:
            calls.insert(0, (args, kwargs))
        return _judged(module, calls, options, root)

    return compile_ready


def _fail(text: str) -> NoReturn:
    pytest.fail(f"{NAME}: {text}", pytrace=False)


def _reject_ambiguous(module: Any, given: Iterable[str]) -> None:
    """Reject a keyword that both the module and the fixture take: it must not silently go to one of them."""
    try:
        parameters = inspect.signature(getattr(module, "forward", module)).parameters
    except (TypeError, ValueError):
        return
    for name in given:
        if name in parameters:
            _fail(
                f"`{name}` is an option here and a parameter of what is called: give the option by the marker, "
                f"and the argument by also=[(args, kwargs)]"
            )


def _checked(given: dict[str, Any]) -> Options:
    options = Options(**given)
    if options.mode not in ("infer", "train"):
        _fail(f"mode={options.mode!r}: expected 'infer' or 'train'")
    if not isinstance(options.also, (list, tuple)):
        _fail(f"also is a {type(options.also).__name__}: expected a list of calls")
    if options.min_coverage is not None and not (_is_number(options.min_coverage) and 0 <= options.min_coverage <= 1):
        _fail(f"min_coverage={options.min_coverage!r}: expected a share from 0 to 1")
    number = options.max_recompiles
    if not _is_number(number, int) or number < 0:
        _fail(f"max_recompiles={number!r}: expected a whole number from 0 on")
    for name, value in (("allow", options.allow), ("own", options.own)):
        _check_strings(name, value)
    tolerances = {"rtol": options.rtol, "atol": options.atol}
    for name, tolerance in tolerances.items():
        if tolerance is not None and not (_is_number(tolerance) and tolerance >= 0):
            _fail(f"{name}={tolerance!r}: expected a number from 0 on")
    if (options.rtol is None) != (options.atol is None):
        missing = next(name for name, tolerance in tolerances.items() if tolerance is None)
        _fail(f"{missing} is missing: give both rtol and atol, or neither")
    return options


def _is_number(value: object, kinds: type | tuple[type, ...] = (int, float)) -> bool:
    return isinstance(value, kinds) and not isinstance(value, bool)


def _check_strings(name: str, value: object) -> None:
    """Fail unless the value is a string, a list of strings, or None for none. An empty string would match
    everything."""
    if value is None or isinstance(value, str):
        several: Iterable[object] = () if value is None else (value,)
    elif isinstance(value, (list, tuple, set, frozenset)):
        several = value
    else:
        _fail(f"{name}={value!r}: expected a string or a list of strings")
    for item in several:
        if not isinstance(item, str):
            _fail(f"{name} holds {item!r}: expected a string or a list of strings")
        elif not item.strip():
            _fail(f"{name} holds an empty {'pattern' if name == 'allow' else 'name'}")


def _judged(module: Callable[..., Any], calls: Sequence[Any], options: Options, root: str) -> Observation:
    from tcready import api
    from tcready.schema.enums import TcreadyError

    __tracebackhide__ = True
    tolerance = None
    if options.rtol is not None and options.atol is not None:
        tolerance = (options.rtol, options.atol)
    wrong = ""
    try:
        allowed = _Allowed(_several(options.allow))
        seen = api.observe_live(
            module,
            calls,
            mode=options.mode,
            dynamic=options.dynamic,
            fullgraph=options.fullgraph,
            parity=options.parity,
            tolerance=tolerance,
            own_packages=_several(options.own),
            root=root,
        )
    except TcreadyError as error:
        wrong = str(error)
    if wrong:  # not where it was caught: the report would show both exceptions
        _fail(wrong)
    found = list(_problems(seen, options, allowed))
    if found:
        more = _uncounted(seen, options)
        _fail("\n  ".join([f"{seen.target} is not ready for torch.compile", *found, *more]))
    return seen


def _several(value: str | Sequence[str] | None) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value or ())


class _Allowed:
    """The breaks that are allowed. Raises TcreadyError for an unknown rule."""

    def __init__(self, patterns: tuple[str, ...]) -> None:
        from tcready import api
        from tcready.schema.enums import TcreadyError

        self.patterns = patterns
        codes = {pattern for pattern in patterns if re.fullmatch(r"TCR\d+", pattern)}
        rules = {rule.code: rule.gb_ids for rule in api.load_rules()} if codes else {}
        if unknown := sorted(codes - rules.keys()):
            raise TcreadyError(f"allow names {unknown[0]}, and there is no such rule: `tcready rules` lists them")
        self.ids = {*patterns, *(gb_id for code in codes for gb_id in rules[code])}

    def __call__(self, site: BreakSite | SkippedFrame) -> bool:
        places = f"{site.path}:{site.line}", site.path
        return bool(self.ids.intersection(_ids(site))) or any(
            pattern in site.reason or any(fnmatch.fnmatchcase(place, pattern) for place in places)
            for pattern in self.patterns
        )


def _ids(site: BreakSite | SkippedFrame) -> tuple[str, ...]:
    several: tuple[str, ...] = getattr(site, "gb_ids", ())
    first: str | None = getattr(site, "gb_id", None)
    return several or ((first,) if first else ())


def _problems(seen: Observation, options: Options, allowed: _Allowed) -> Iterator[str]:
    """Return why the test fails, one line for each reason, breaks first."""
    counted = [site for site in _breaks(seen, options) if not allowed(site)]
    places: dict[tuple[str, int], list[BreakSite]] = {}
    for site in counted:
        places.setdefault((site.path, site.line), []).append(site)
    for (path, line), sites in places.items():
        site = sites[0]
        about = ", ".join([*_ids(site)[:1], f"in {site.symbol}", *(s.case for s in sites if s.case)])
        whole = "" if site.action == "resume" else "; the rest of the function runs eagerly"
        yield f"{path}:{line}: {site.reason}{whole} ({about})"
    given_up = dict(_given_up(seen, options, allowed))
    for (path, line, symbol), reason in given_up.items():
        yield f"{path}:{line}: {symbol} runs eagerly as a whole: {reason}"
    stages = {stage.stage: stage for stage in seen.stages}
    failed = next((stages[name] for name in ("build", "eager", "capture") if stages[name].state != "pass"), None)
    if failed is not None:
        yield f"{_STAGES[failed.stage]}: {failed.detail}"
        return
    recompiles = [event for event in seen.recompiles if _counts(event.origin, options)]
    if len(recompiles) > options.max_recompiles:
        noun = "recompilation" if len(recompiles) == 1 else "recompilations"
        yield f"{len(recompiles)} {noun}, max_recompiles={options.max_recompiles}:"
        for event in recompiles:
            when = ", ".join(filter(None, [event.case, "an identical call" if event.identical_call else None]))
            yield f"{event.path}:{event.line}: recompiled {event.symbol}{f' ({when})' if when else ''}: " + (
                "; ".join(event.reasons) or "no reason was logged"
            )
    share = seen.coverage.share if seen.coverage else 0.0
    if not seen.graphs and not counted and not given_up:
        why = (
            "what breaks is intended, allowed or in installed packages, and leaves no graph"
            if seen.break_sites
            else "no operation of torch ran, or compilation is switched off"
        )
        yield f"nothing was compiled: {why}"
    if options.min_coverage is not None and share < options.min_coverage:
        yield f"{share:.0%} of operations in graphs, below min_coverage={options.min_coverage:g}"
    if options.fullgraph and stages["fullgraph"].state != "pass":
        yield f"fullgraph=True: {stages['fullgraph'].detail}"
    if options.parity and stages["parity"].state != "pass":
        state = "parity" if stages["parity"].state == "fail" else "parity could not be shown (parity=False asks not)"
        yield f"{state}: {stages['parity'].detail}"


_STAGES = {"build": "could not be run", "eager": "eager code raised", "capture": "compiled code raised"}


def _counts(origin: Origin, options: Options) -> bool:
    return options.third_party or origin == "own"


def _breaks(seen: Observation, options: Options) -> Iterator[BreakSite]:
    """Return the breaks that count; deliberate ones (`torch.compiler.disable`) do not."""
    from tcready.schema.enums import INTENDED

    for site in seen.break_sites:
        intended = _ids(site) and INTENDED.issuperset(_ids(site))
        if _counts(site.origin, options) and not intended:
            yield site


def _given_up(seen: Observation, options: Options, allowed: _Allowed) -> Iterator[tuple[tuple[str, int, str], str]]:
    """Return own functions that Dynamo gave up as a whole for a break that is in no own line, and why."""
    own = [site for site in seen.break_sites if _counts(site.origin, options)]
    for frame in seen.skipped_frames:
        if frame.benign or not _counts(frame.origin, options) or allowed(frame):
            continue
        behind = [
            site
            for site in seen.break_sites
            for fate in site.frames
            if (fate.path, fate.symbol) == (frame.path, frame.symbol) and fate.fate == "whole_frame"
        ]
        # An own break is judged by itself; if nothing names the function, any own one may be the reason.
        if any(site in own for site in behind) or (own and not behind) or any(map(allowed, behind)):
            continue
        reason = f"{behind[0].path}:{behind[0].line}: {behind[0].reason}" if behind else frame.reason
        yield (frame.path, frame.line, frame.symbol), reason


def _uncounted(seen: Observation, options: Options) -> Iterator[str]:
    others = {(site.path, site.line) for site in seen.break_sites if not _counts(site.origin, options)}
    if others:
        number = f"{len(others)} break{'' if len(others) == 1 else 's'}"
        yield f"({number} in installed packages not counted; third_party=True counts them)"
