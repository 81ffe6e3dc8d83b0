"""The store of a sweep: one SQLite file, a row for each model and stage.

A row is claimed before its task begins and filled when it is done, each in one transaction. A killed sweep leaves
finished results, and claims that the next sweep takes over. Several sweeps on one machine may use one file at a time:
each waits for what the others are working on. The file's journal (WAL) does not work on a network drive.
"""

from __future__ import annotations

import contextlib
import functools
import json
import math
import os
import socket
import sqlite3
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from tcready.pipeline.report_loading import unusable
from tcready.schema.codec import as_json, from_json
from tcready.schema.enums import TcreadyError
from tcready.schema.sweep import Outcome
from tcready.static.cache import FOLDER, make_folder
from tcready.sweep.cache_key import Ground
from tcready.sweep.task import Result, Task

T = TypeVar("T")
SETTING: Any = tuple[str, str, str, str | None, str, str, str | None]
"""Stage, target, table of a list, model of a library, mode, device and interpreter: identifies a model in a cell of
the matrix in each sweep. Stored as JSON."""
VERSION = 1
SILENT = 300.0
"""Seconds without a heartbeat after which a sweep in another container, where its process is not visible, is assumed
dead."""
WAIT = 60.0
"""Seconds to wait for a transaction of another sweep."""
_TABLES = """
CREATE TABLE IF NOT EXISTS owners (
    id TEXT PRIMARY KEY, host TEXT NOT NULL, process INTEGER NOT NULL, born TEXT NOT NULL, beat REAL NOT NULL);
CREATE TABLE IF NOT EXISTS results (
    key TEXT PRIMARY KEY, stage TEXT NOT NULL, target TEXT NOT NULL, status TEXT NOT NULL, owner TEXT NOT NULL,
    sweep INTEGER NOT NULL, tries INTEGER NOT NULL, began REAL, ended REAL, seconds REAL,
    ground TEXT NOT NULL, value TEXT);
CREATE TABLE IF NOT EXISTS sweeps (
    id INTEGER PRIMARY KEY, owner TEXT NOT NULL, asked TEXT NOT NULL, began REAL NOT NULL, ended REAL);
CREATE TABLE IF NOT EXISTS members (
    sweep INTEGER NOT NULL, setting TEXT NOT NULL, key TEXT NOT NULL, row TEXT NOT NULL,
    PRIMARY KEY (sweep, setting)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS by_setting ON members (setting, sweep);
"""
Claim = Literal["mine", "done", "theirs"]
Status = Literal["claimed", "done", "passing"]
"""`passing`: valid only for this sweep, and computed again by the next."""


@dataclass(frozen=True)
class StoredResult:
    """A result in the store."""

    value: str
    seconds: float
    began: float


@dataclass(frozen=True)
class Earlier:
    """The result of the previous sweep for a model in a setting."""

    ground: Ground
    found: Outcome


class ResultStore:
    """The file, as one sweep uses it, from one thread."""

    def __init__(self, path: Path, named: str) -> None:
        """Open the file, or create it. Raises TcreadyError, with the name `named`, if it cannot be used."""
        self._named = named
        self.owner = uuid.uuid4().hex
        self.sweep = 0
        with self._telling():
            if path.parent.name == FOLDER:
                make_folder(path.parent)
            path.parent.mkdir(parents=True, exist_ok=True)
            self._base = sqlite3.connect(path, timeout=WAIT, isolation_level=None)
            self._reject_others()
            self._base.execute("PRAGMA journal_mode = WAL")
            self._base.execute("PRAGMA synchronous = NORMAL")
            with self._changing():
                (version,) = self._base.execute("PRAGMA user_version").fetchone()
                if version not in (0, VERSION):
                    raise TcreadyError(
                        f"the store {named} is of another tcready (version {version}): name another with --store"
                    )
                for statement in filter(None, map(str.strip, _TABLES.split(";"))):
                    self._base.execute(statement)
                if _layout(self._base) != _own_layout():
                    raise ValueError("its tables are not those of a sweep")
                self._base.execute(f"PRAGMA user_version = {VERSION}")

    def _reject_others(self) -> None:
        """Raise TcreadyError for a database that no sweep made, before anything in it is changed."""
        self._base.execute("BEGIN")
        (version,) = self._base.execute("PRAGMA user_version").fetchone()
        tables = self._base.execute("SELECT 1 FROM sqlite_master").fetchone()
        self._base.execute("COMMIT")
        if version == 0 and tables is not None:
            raise TcreadyError(f"the store {self._named} is the database of another program: name another with --store")

    def __enter__(self) -> ResultStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release claims that are not done."""
        with contextlib.suppress(sqlite3.Error), self._changing():
            self._give_back()
            self._base.execute("DELETE FROM owners WHERE id = ?", (self.owner,))
        with contextlib.suppress(sqlite3.Error):
            self._base.close()

    def begin(self, asked: Any) -> None:
        """Begin a sweep; `asked` is the request, as JSON.

        Results that were valid for one sweep only are dropped if that sweep is over.
        """
        with self._telling(), self._changing():
            me = (self.owner, _host(), os.getpid(), _born(os.getpid()), time.time())
            self._base.execute("INSERT INTO owners VALUES (?, ?, ?, ?, ?)", me)
            living = self._living()
            for key, owner in self._base.execute("SELECT key, owner FROM results WHERE status = 'passing'").fetchall():
                if owner not in living:
                    self._base.execute("DELETE FROM results WHERE key = ?", (key,))
            cursor = self._base.execute(
                "INSERT INTO sweeps (owner, asked, began) VALUES (?, ?, ?)", (self.owner, _text(asked), time.time())
            )
            self.sweep = int(cursor.lastrowid or 0)

    def beat(self) -> None:
        """Record a heartbeat, for sweeps that cannot see this process."""
        with self._telling(), self._changing():
            self._base.execute("UPDATE owners SET beat = ? WHERE id = ?", (time.time(), self.owner))

    def claim(self, task: Task, ground: Ground, *, fresh: bool = False) -> Claim:
        """Claim a task: return if this sweep is to carry it out, its result exists, or another sweep is working on it.

        `fresh`: results of earlier sweeps are ignored. Results that are not JSON always are.
        """
        with self._telling(), self._changing():
            row = self._base.execute(
                "SELECT status, owner, sweep, value FROM results WHERE key = ?", (task.key,)
            ).fetchone()
            if row is not None:
                status, owner, sweep, value = row
                old = fresh and sweep < self.sweep
                if status != "claimed" and not old and _is_whole(value):
                    return "done"
                if status == "claimed" and owner != self.owner and owner in self._living():
                    return "theirs"
            self._base.execute(
                "INSERT INTO results (key, stage, target, status, owner, sweep, tries, began, ground)"
                " VALUES (?, ?, ?, 'claimed', ?, ?, 1, ?, ?) ON CONFLICT (key) DO UPDATE SET status = 'claimed',"
                " owner = excluded.owner, sweep = excluded.sweep, tries = tries + 1, began = excluded.began",
                (
                    *(task.key, task.stage, _plain(task.target), self.owner, self.sweep, time.time()),
                    _text(as_json(ground)),
                ),
            )
            return "mine"

    def finish(self, result: Result) -> None:
        """Store the result of a task that this sweep claimed."""
        status: Status = "passing" if result.passing else "done"
        with self._telling(), self._changing():
            self._base.execute(
                "UPDATE results SET status = ?, began = ?, ended = ?, seconds = ?, value = ?"
                " WHERE key = ? AND owner = ?",
                (
                    *(status, result.began, result.began + result.seconds, result.seconds, result.value),
                    *(result.key, self.owner),
                ),
            )

    def give_up(self, key: str) -> None:
        """Release a claim without a result."""
        with self._telling(), self._changing():
            self._give_back(key)

    def _give_back(self, key: str | None = None) -> None:
        """Release claims without a result, or that of one key: the result of an earlier sweep becomes valid again."""
        mine = (self.owner, key, key)
        self._base.execute(
            "DELETE FROM results WHERE status = 'claimed' AND owner = ? AND (? IS NULL OR key = ?) AND value IS NULL",
            mine,
        )
        self._base.execute(
            "UPDATE results SET status = 'done' WHERE status = 'claimed' AND owner = ? AND (? IS NULL OR key = ?)", mine
        )

    def result(self, key: str) -> StoredResult | None:
        """Return the result under a key; None if there is none."""
        with self._telling():
            row = self._base.execute("SELECT value, seconds, began FROM results WHERE key = ?", (key,)).fetchone()
            if row is None or row[0] is None:
                return None
            _reject_types(row[:1], str)
            _reject_types(row[1:], float)
        return StoredResult(*row)

    def earlier(self, setting: str) -> Earlier | None:
        """Return the result of the last completed sweep for a model in a setting; None if there is none."""
        with self._telling():
            row = self._base.execute(
                "SELECT results.ground, members.row FROM members"
                " JOIN sweeps ON sweeps.id = members.sweep JOIN results ON results.key = members.key"
                " WHERE members.setting = ? AND sweeps.ended IS NOT NULL AND sweeps.id < ?"
                " ORDER BY sweeps.id DESC LIMIT 1",
                (setting, self.sweep),
            ).fetchone()
            if row is None:
                return None
        ground, found = row
        return Earlier(self.read_as(Ground, ground), self.read_as(Outcome, found))

    def read_as(self, kind: type[T], text: str) -> T:
        """Convert a value of the store. Raises TcreadyError, with the store's name, if it is of another kind."""
        try:
            data = json.loads(text)
            if why := unusable(data, kind):
                raise ValueError(f"it holds {why}")
            return from_json(kind, data)
        except (TcreadyError, ValueError, TypeError, RecursionError) as error:
            raise self._damaged(error) from None

    def settings_before(self) -> Mapping[str, str]:
        """Return the settings of the last completed sweep with the same request, with the target of each."""
        with self._telling():
            found = self._base.execute(
                "SELECT setting FROM members WHERE sweep = (SELECT MAX(last.id) FROM sweeps AS last"
                " JOIN sweeps AS this ON this.asked = last.asked"
                " WHERE this.id = ? AND last.id < ? AND last.ended IS NOT NULL)",
                (self.sweep, self.sweep),
            ).fetchall()
            _reject_types([setting for (setting,) in found], str)
        return {setting: str(self.read_as(SETTING, setting)[1]) for (setting,) in found}

    def end(self, rows: Sequence[tuple[str, str, Any]]) -> None:
        """Complete the sweep: its rows are `(setting, key, outcome)`, the outcome as JSON."""
        with self._telling(), self._changing():
            self._base.executemany(
                "INSERT OR REPLACE INTO members VALUES (?, ?, ?, ?)",
                [(self.sweep, setting, key, _text(outcome)) for setting, key, outcome in rows],
            )
            self._base.execute("UPDATE sweeps SET ended = ? WHERE id = ?", (time.time(), self.sweep))

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield all finished results, for an export: key, stage, target, began, ended, seconds, ground, value."""
        with self._telling():
            for row in self._base.execute(
                "SELECT key, stage, target, began, ended, seconds, ground, value FROM results"
                " WHERE status != 'claimed' ORDER BY target, stage, key"
            ):
                _reject_types((*row[:3], *row[6:]), str)
                _reject_types(row[3:6], float)
                yield row

    def _living(self) -> set[str]:
        """Return the owners that are alive. Owners without a process are removed."""
        living: set[str] = set()
        for owner, host, process, born, beat in self._base.execute("SELECT * FROM owners").fetchall():
            here = host == _host()
            if _born(process) == born if here else abs(time.time() - beat) < SILENT:
                living.add(owner)
            else:
                self._base.execute("DELETE FROM owners WHERE id = ?", (owner,))
        return living

    @contextlib.contextmanager
    def _changing(self) -> Iterator[None]:
        self._base.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                self._base.execute("ROLLBACK")
            raise
        self._base.execute("COMMIT")

    @contextlib.contextmanager
    def _telling(self) -> Iterator[None]:
        """Raise TcreadyError for errors of the file, in one line."""
        try:
            yield
        except (OSError, sqlite3.OperationalError) as error:
            why = getattr(error, "strerror", None) or error
            raise self._unusable(f"{why}; --store names another place") from None
        except (sqlite3.Error, ValueError, TypeError) as error:  # a damaged one has values of any type
            raise self._damaged(error) from None

    def _unusable(self, why: object) -> TcreadyError:
        return TcreadyError(f"the store {self._named} cannot be used: {why}")

    def _damaged(self, why: object) -> TcreadyError:
        return self._unusable(f"{why}; delete it, or name another with --store")


def _text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


def _is_whole(text: str | None) -> bool:
    """Return True if the text of a result can be parsed: a damaged file may have truncated it."""
    try:
        json.loads(text or "")
    except (ValueError, RecursionError):
        return False
    return True


def _layout(base: sqlite3.Connection) -> list[tuple[str, str, str]]:
    """Return the statements for the tables of a database, without SQLite's internal ones."""
    return base.execute(
        "SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY type, name"
    ).fetchall()


@functools.cache
def _own_layout() -> list[tuple[str, str, str]]:
    """Return the layout of a store. A view in place of a table might never end, and a trigger could do anything."""
    with contextlib.closing(sqlite3.connect(":memory:")) as base:
        base.executescript(_TABLES)
        return _layout(base)


def _reject_types(values: Iterable[object], kind: type) -> None:
    """Raise ValueError for a value of another type: SQLite stores any type in any column."""
    for value in values:
        if not isinstance(value, kind) or (isinstance(value, float) and not math.isfinite(value)):
            raise ValueError(f"expected {kind.__name__}, found {value!r:.40}")


def _plain(text: str) -> str:
    """Escape bytes in names of files that are not text."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _host() -> str:
    """Return the machine, and its namespace of process IDs."""
    space = ""
    with contextlib.suppress(OSError):
        space = os.readlink("/proc/self/ns/pid")
    return f"{socket.gethostname()} {space}"


def _born(process: int) -> str:
    """Return when a process began, as the system counts, to distinguish processes with the same ID; empty if there
    is none."""
    try:
        with open(f"/proc/{process}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        if fields[0] in (b"Z", b"X"):  # it is dead, and its parent has not asked how it ended
            return ""
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as boot:
            return f"{fields[19].decode()} {boot.read().strip()}"
    except (OSError, IndexError):
        pass
    if os.path.isdir("/proc/self"):
        return ""
    try:
        os.kill(process, 0)
    except OSError:
        return ""
    return "there"
