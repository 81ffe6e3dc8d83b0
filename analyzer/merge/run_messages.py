"""Results of a run, each in one line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tcready.merge.observed_run import ids_of_site, skips
from tcready.schema.static import Evidence

if TYPE_CHECKING:
    from tcready.schema.run import BreakSite, Recompile, RegionTrial, SkippedFrame


def first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "no reason given")


def slug(reason: str) -> str:
    """Return the kind of a break as a name (`data-dependent-branching`), if its first line is short enough."""
    words = re.findall(r"[a-z0-9]+", first_line(reason).split(":")[0].lower())
    return "-".join(words) if words and len(words) <= 6 else ""


def _hits(count: int) -> str:
    return f"{count} hit{'' if count == 1 else 's'}"


def dynamo(text: str) -> Evidence:
    return Evidence("dynamo", text)


def alone_evidence(trial: RegionTrial) -> Evidence:
    """Return evidence for a break that only occurred where a part of the model was compiled alone."""
    reason = first_line(trial.site.reason) if trial.site else trial.reason
    return dynamo(f"{trial.name or 'the model'} compiled alone breaks here: {reason}")


def site_evidence(site: BreakSite) -> Evidence:
    after = "; the whole frame went eager" if skips(site) else ""
    return dynamo(f"{first_line(site.reason)} ({', '.join([*ids_of_site(site), _hits(site.hits)])}){after}")


def skip_evidence(frame: SkippedFrame) -> Evidence:
    return dynamo(f"skipped the frame {frame.symbol} (line {frame.line}): {first_line(frame.reason)}")


def recompile_evidence(recompile: Recompile) -> Evidence:
    when = "on a later call"
    if recompile.identical_call:
        when = "on an identical call"
    elif recompile.on_other_numbers:
        when = "on calls with other random numbers, until the limit"
    reasons = "; ".join(dict.fromkeys(map(first_line, recompile.reasons))) or "no reason given"
    return dynamo(f"recompiled {recompile.symbol} {when}: {reasons}")
