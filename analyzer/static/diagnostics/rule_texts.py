"""The texts of the rules, read when they are asked for: a report needs those of the rules that found something."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from tcready.schema.static import RuleText

if TYPE_CHECKING:
    from tcready.static.diagnostics.rule import Rule


class RuleTexts(Mapping[str, RuleText]):
    """The text of every rule, by code."""

    def __init__(
        self, codes: Iterable[str], load: Callable[[], tuple[Rule, ...]], known: Iterable[RuleText] = ()
    ) -> None:
        """`load` gives the rules; it is not called for the texts that are `known`."""
        self._codes = tuple(codes)
        self._load = load
        self._known = {text.code: text for text in known}
        self._rules: Mapping[str, Rule] = {}

    def __getitem__(self, code: str) -> RuleText:
        if code not in self._known:
            if code not in self._codes:
                raise KeyError(code)
            self._rules = self._rules or {rule.code: rule for rule in self._load()}
            self._known[code] = self._rules[code].text()
        return self._known[code]

    def __contains__(self, code: object) -> bool:
        return code in self._codes  # the default reads the text

    def __iter__(self) -> Iterator[str]:
        return iter(self._codes)

    def __len__(self) -> int:
        return len(self._codes)
