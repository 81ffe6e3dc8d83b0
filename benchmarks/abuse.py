"""Does to a run what its surroundings may do to it, again and again, and says what came of it.

    python benchmarks/abuse.py [--only kill-fix full clock many many-swept users together hostile] [--kills 200] [--seed 0]

kill-...  `check`, `fix --apply`, a check that runs a model, `sweep` and a sweep that runs models are killed (SIGKILL) at
          random moments, until --kills of them were killed before they had ended: every file is as it was or whole, the
          next run says what an undisturbed one says, and no process is left.
full      the same commands on disks of all sizes, too small ones among them (needs `unshare`): exit 0, 1 or 2, no
          traceback, nothing half-written.
clock     the wall clock jumps by years at every look (a shim that `cc` builds, LD_PRELOAD): limits of time hold, and the
          report is that of an undisturbed run.
many      a folder of 10,000 files: seconds and memory, without and with the cache; many-swept: a sweep of 2,000.
users     two users take turns with one cache, each unable to write what the other made (needs root, `setpriv`, and an
          interpreter that other users can start).
together  many processes use one cache at once, some of them killed.
hostile   models that do to their process what they should not: each gives a report within its limit of time, and leaves no
          process; hostile-swept: all of them in one sweep.

Prints a row of a table for each, and what was wrong; exits 1 if anything was. The figures in docs/pages/reliability.md are
from here. What is killed and what must hold then is a `Victim`: another command is another one of these.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

TCREADY = [sys.executable, "-m", "tcready"]
STATIC = """\
from torch import nn


class Net{n}(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            x = x + 1
        return x
"""
RUN = """\
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            x = x + 1
        return x * 2


def get_inputs():
    return [torch.ones(4, 8)]
"""
PARTIAL = re.compile(r"\.tcready-\d+-\d+|[0-9a-f]{64}\.\d+-\d+")
"""What a process that was killed may leave: a file that nobody reads, beside the one that it was to become."""
MOST = 10
"""As many times the kills are tried: a machine that has become faster would end each run before its kill."""


@dataclass(frozen=True)
class Victim:
    """A command that is killed, and what must hold whenever it is."""

    name: str
    arguments: tuple[str, ...]
    files: tuple[str, ...]
    """Those that it writes: each is as it was before, or as an undisturbed run leaves it."""
    again: tuple[str, ...]
    """What is asked afterwards, of the next run; it must say what it says undisturbed."""
    source: str = STATIC.format(n="")


CHECK = ("check", "model.py", "--no-run", "-q")
SWEEP = ("sweep", "model.py", "-q", "--exit-zero", "--jobs", "2")
VICTIMS = {
    "kill-check": Victim(
        "check",
        (*CHECK, "--html", "page.html", "-o", "report.json", "--output-format", "json"),
        ("page.html", "report.json"),
        (*CHECK, "--output-format", "json"),
    ),
    "kill-fix": Victim(
        "fix --apply",
        ("fix", "model.py", "--unsafe", "--apply", "--allow-dirty", "-q"),
        ("model.py",),
        (*CHECK, "--output-format", "json"),
    ),
    "kill-run": Victim(
        "check, with a run",
        ("check", "model.py", "-q", "--html", "page.html"),
        ("page.html",),
        (*CHECK, "--output-format", "json"),
        RUN,
    ),
    "kill-sweep": Victim(
        "sweep --no-run",
        (*SWEEP, "--no-run", "--output-format", "json", "-o", "report.json"),
        ("report.json",),
        (*SWEEP, "--no-run", "--output-format", "concise"),
    ),
    "kill-swept-runs": Victim(
        "sweep, with runs",
        (*SWEEP, "--output-format", "json", "-o", "report.json"),
        ("report.json",),
        (*SWEEP, "--output-format", "concise"),
        RUN,
    ),
}


def tcready(
    folder: Path, *arguments: str, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*TCREADY, *arguments],
        cwd=folder,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
    )


def marked(mark: str) -> list[int]:
    """Processes that carry `mark` in their environment, zombies left out."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            alive = "Z" not in (entry / "stat").read_text().rpartition(")")[2].split()[0]
            if alive and mark.encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def kill(victim: Victim, kills: int, seed: int) -> Iterator[str]:
    """Kills it at random moments of its run, until so many were killed before they had ended."""
    draw = random.Random(f"{seed} {victim.name}")
    ended: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) / "project"
        folder.mkdir()
        before = {"model.py": victim.source.encode()}
        after, said, lasts = _undisturbed(folder, victim, before)
        for number in itertools.count():
            if ended["killed"] >= kills:
                break
            if number == MOST * kills:
                yield f"{victim.name}: only {ended['killed']} of {number} were still running when they were killed"
                break
            fresh = draw.random() < 0.5  # else with the cache that the runs before left
            _reset(folder, before, fresh)
            mark = f"abuse-{os.getpid()}-{number}"
            process = subprocess.Popen(
                [*TCREADY, *victim.arguments],
                cwd=folder,
                env={**os.environ, "ABUSE": mark},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            time.sleep(draw.uniform(0, lasts))
            process.send_signal(signal.SIGKILL)
            ended["killed" if process.wait() == -signal.SIGKILL else "done before"] += 1
            yield from _wrong_files(folder, victim, before, after, f"{victim.name}, kill {number}")
            ended["left a partial file"] += bool(_partials(folder))
            deadline = time.monotonic() + 10
            while marked(mark) and time.monotonic() < deadline:
                time.sleep(0.05)
            if marked(mark):
                yield f"{victim.name}, kill {number}: processes are left: {marked(mark)}"
            if tcready(folder, *victim.again).stdout not in said:
                yield f"{victim.name}, kill {number}: the next run says something else"
    print(f"| kill -9 of `{victim.name}` | {ended['killed']} | {dict(ended)} |", flush=True)


def _undisturbed(folder: Path, victim: Victim, before: dict[str, bytes]) -> tuple[dict[str, bytes], set[str], float]:
    """The files as the command leaves them, what the next run says before and after it, and the seconds that it takes."""
    _reset(folder, before, True)
    said = {tcready(folder, *victim.again).stdout}
    began = time.monotonic()
    tcready(folder, *victim.arguments)
    lasts = time.monotonic() - began
    said.add(tcready(folder, *victim.again).stdout)
    return {name: (folder / name).read_bytes() for name in victim.files}, said, lasts


def _reset(folder: Path, files: dict[str, bytes], fresh: bool) -> None:
    """The folder as it was; a cache that is there stays unless `fresh`."""
    for path in folder.iterdir():
        if path.name != ".tcready_cache":
            path.unlink()
        elif fresh:
            shutil.rmtree(path)
    for name, data in files.items():
        (folder / name).write_bytes(data)


def _partials(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if PARTIAL.fullmatch(path.name)]


def _wrong_files(
    folder: Path, victim: Victim, before: dict[str, bytes], after: dict[str, bytes], what: str
) -> Iterator[str]:
    for name in victim.files:
        path = folder / name
        found = path.read_bytes() if path.exists() else None
        if found is None and name not in before:
            continue
        whole = found in (before.get(name), after[name]) or (
            found is not None and _is_page_or_report(found, after[name])
        )
        if not whole:
            yield f"{what}: {name} is half-written"
    unknown = {path.name for path in folder.iterdir()} - {*before, *victim.files, ".tcready_cache"}
    if strange := [name for name in unknown if not PARTIAL.fullmatch(name)]:
        yield f"{what}: there is {strange}"


def _is_page_or_report(found: bytes, other: bytes) -> bool:
    """Whether it is as whole as another run's, which measured other times."""
    if other.lstrip().startswith(b"<"):
        return found.rstrip().endswith(b"</html>")
    try:
        return bool(json.loads(found)) and other.startswith(b"{")
    except ValueError:
        return False


def full(_kills: int, _seed: int) -> Iterator[str]:
    """The victims on disks of 16 KB to 64 MB, which hold the project and all temporary files."""
    ended: Counter[str] = Counter()
    script = (
        'mount -t tmpfs -o size="$2"k none "$1" || exit 99; mkdir "$1/tmp" "$1/p" && printf %s "$4" > "$1/p/model.py" && '
        'cd "$1/p" && export TMPDIR="$1/tmp" && shift 4 && "$@"; echo "exit $?"; '
        'for f in page.html report.json; do test -e "$f" && tail -c 20 "$f"; done; cat model.py | tail -n 3; exit 0'
    )
    for victim in VICTIMS.values():
        for size in (16, 32, 48, 64, 96, 128, 256, 512, 1024, 2048, 4096, 65536):
            with tempfile.TemporaryDirectory() as made:
                command = [
                    "unshare",
                    "-rm",
                    "sh",
                    "-c",
                    script,
                    "sh",
                    made,
                    str(size),
                    "-",
                    victim.source,
                    *TCREADY,
                    *victim.arguments,
                ]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode == 99 or "unshare" in done.stderr:
                print("| full disks | not run: no namespaces here | |")
                return
            code = next(line for line in done.stdout.splitlines() if line.startswith("exit "))
            ended[code] += 1
            if code not in ("exit 0", "exit 1", "exit 2") or "Traceback" in done.stderr:
                yield f"{victim.name} on {size} KB: {code}: {done.stderr[-600:]}"
            if not done.stdout.rstrip().endswith(victim.source.rstrip().splitlines()[-1]):
                yield f"{victim.name} on {size} KB: the source is not whole: {done.stdout[-300:]}"
            if "--html" in victim.arguments and code == "exit 0" and "</html>" not in done.stdout:
                yield f"{victim.name} on {size} KB: the page is not whole"
    print(f"| full disks, 12 sizes | {sum(ended.values())} | {dict(ended)} |", flush=True)


SHIM = """\
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>
static long jump(void) { static unsigned n; n++; return (n % 3 == 0 ? 315360000L : n % 3 == 1 ? -315360000L : 0); }
int clock_gettime(clockid_t id, struct timespec *t) {
  static int (*real)(clockid_t, struct timespec *);
  if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
  int r = real(id, t);
  if (id == CLOCK_REALTIME) t->tv_sec += jump();
  return r;
}
int gettimeofday(struct timeval *t, void *z) {
  struct timespec s; (void)z; clock_gettime(CLOCK_REALTIME, &s); t->tv_sec = s.tv_sec; t->tv_usec = s.tv_nsec / 1000; return 0;
}
time_t time(time_t *t) {
  struct timespec s; clock_gettime(CLOCK_REALTIME, &s); if (t) *t = s.tv_sec; return s.tv_sec;
}
"""


def clock(_kills: int, _seed: int) -> Iterator[str]:
    """A wall clock that jumps ten years forth and back at every look."""
    if shutil.which("cc") is None:
        print("| clock jumps | not run: no C compiler | |")
        return
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        (folder / "shim.c").write_text(SHIM)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", "shim.so", "shim.c", "-ldl"], cwd=folder, check=True)
        jumping = {"LD_PRELOAD": str(folder / "shim.so")}
        probe = [sys.executable, "-c", "import time; a = [time.time() for _ in range(9)]; print(max(a) - min(a))"]
        spread = subprocess.run(probe, env={**os.environ, **jumping}, capture_output=True, text=True, check=True)
        assert float(spread.stdout) > 1e8, "the shim does nothing"
        (folder / "model.py").write_text(RUN)
        (folder / "hangs.py").write_text(RUN.replace("return x * 2", "while True: pass"))
        said = []
        for environment in ({}, jumping, jumping):
            done = tcready(folder, "check", "model.py", "-q", "--output-format", "concise", environment=environment)
            said.append((done.returncode, done.stdout, done.stderr))
        if len(set(said)) != 1:
            yield f"another report under a jumping clock: {said}"
        began = time.monotonic()
        done = tcready(folder, "check", "hangs.py", "--timeout", "15", environment=jumping)
        took = time.monotonic() - began
        if done.returncode != 2 or "no answer within 15 s" not in done.stdout or not 14 < took < 60:
            yield f"a limit of 15 s took {took:.0f} s: {done.stdout[-300:]}{done.stderr[-300:]}"
        print(
            f"| wall clock jumps by ten years at each look | 4 | same report; a limit of 15 s ended a run that hangs in {took:.0f} s |",
            flush=True,
        )


def many(_kills: int, _seed: int) -> Iterator[str]:
    """A folder of 10,000 files, one in ten with a finding."""
    yield from _of_many(10_000, "check", ".", "--no-run", "-q", "--output-format", "concise")


def many_swept(_kills: int, _seed: int) -> Iterator[str]:
    """The same of 2,000 files, each a model of a sweep."""
    yield from _of_many(
        2_000, "sweep", ".", "--no-run", "-q", "--no-cache", "--output-format", "concise"
    )  # what is warm then is the store


def _of_many(count: int, *arguments: str) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for number in range(count):
            place = folder / f"part_{number // 100}"
            place.mkdir(exist_ok=True)
            text = STATIC.format(n=number)
            text = text if number % 10 == 0 else text.replace("x.sum() > 0", "self.training")
            (place / f"model_{number}.py").write_text(text)
        for how in ("cold", "warm"):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            began = time.monotonic()
            done = tcready(folder, *arguments)
            took = time.monotonic() - began
            used = resource.getrusage(resource.RUSAGE_CHILDREN)
            work = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
            lines = done.stdout.count("\n")
            if done.returncode != 1 or lines != count // 10 or done.stderr:
                yield f"{count} files, {how}: exit {done.returncode}, {lines} findings: {done.stderr[-300:]}"
            print(
                f"| {arguments[0]} of {count:,} files, {how} | 1 | {work:.0f} s of CPU time ({took:.0f} s), at most {used.ru_maxrss / 1e3:.0f} MB in one process, {lines} findings |",
                flush=True,
            )


def users(_kills: int, seed: int) -> Iterator[str]:
    """Two users, neither of them root, in a folder of a third: with a sticky bit, and without."""
    if os.getuid() or shutil.which("setpriv") is None:
        print("| a cache of two users | not run: it needs root and `setpriv` | |")
        return
    through = ["setpriv", "--reuid", "12001", "--regid", "12001", "--clear-groups", "sh", "-c", 'exec "$@"', "sh"]
    probe = [*through, *TCREADY, "--version"]  # setpriv itself still starts what only root may
    if subprocess.run(probe, cwd="/", capture_output=True, check=False).returncode:
        print("| a cache of two users | not run: other users cannot start this interpreter | |")
        return
    draw = random.Random(f"users {seed}")
    count = 0
    for mode in (0o1777, 0o777, 0o755):
        with tempfile.TemporaryDirectory() as made:
            os.chmod(made, 0o755)
            folder = Path(made) / "project"
            folder.mkdir()
            os.chmod(folder, mode)
            (folder / "model.py").write_text(STATIC.format(n=""))
            expected = None
            for _ in range(12):
                user = draw.choice(("12001", "12002"))
                mask = draw.choice(("0022", "0077"))
                as_user = [
                    "setpriv",
                    "--reuid",
                    user,
                    "--regid",
                    user,
                    "--clear-groups",
                    "sh",
                    "-c",
                    f'umask {mask}; exec "$@"',
                    "sh",
                ]
                command = [*as_user, *TCREADY, *CHECK, "--output-format", "concise"]
                done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
                expected = expected or done.stdout
                count += 1
                if (done.returncode, done.stdout, done.stderr) != (1, expected, "") or not expected:
                    yield f"user {user} in a folder of mode {mode:o}: exit {done.returncode}: {done.stderr[-300:]}"
                if draw.random() < 0.3:
                    (folder / "model.py").write_text(STATIC.format(n="") + "\n" * draw.randrange(9))
    print(
        f"| one cache, two users in turn, three kinds of folders | {count} | each run as without a cache |", flush=True
    )


def together(_kills: int, seed: int) -> Iterator[str]:
    """Eight processes at a time on one cache; every fourth is killed."""
    draw = random.Random(f"together {seed}")
    said: set[str] = set()
    killed = count = 0
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        (folder / "model.py").write_text(STATIC.format(n=""))
        command = [*TCREADY, *CHECK, "--output-format", "concise"]
        for number in range(12):
            if number % 3 == 0:
                shutil.rmtree(folder / ".tcready_cache", ignore_errors=True)
            started = [
                subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                for _ in range(8)
            ]
            for process in started[::4]:
                time.sleep(draw.uniform(0, 0.4))
                process.kill()
            for process in started:
                out, _ = process.communicate()
                count += 1
                killed += process.returncode == -signal.SIGKILL
                if process.returncode != -signal.SIGKILL:
                    said.add(out)
    if len(said) != 1:
        yield f"several on one cache say {len(said)} things: {[text[-200:] for text in said]}"
    print(f"| one cache, eight processes at once | {count} | {killed} killed; the others agree |", flush=True)


HOSTILE_HEAD = '''\
import gc, json, os, shutil, signal, subprocess, sys, time
import torch
from torch import nn


def get_inputs():
    return [torch.ones(2)]


def room():
    """The folder through which this process is asked and answers."""
    named = (each.state_path for each in gc.get_objects() if type(each).__name__ == "Journal" and each.state_path)
    return os.path.dirname(next(named))


class Model(nn.Module):
    def forward(self, x):
        if not torch.compiler.is_compiling() and not os.environ.get("DONE"):
            os.environ["DONE"] = "1"
            act()
        return x + 1


def act():
'''
STATE = 'state = os.path.join(room(), "state.json")\n'
HOSTILE: dict[str, tuple[str, str]] = {
    "writes garbage into its answer": (
        STATE
        + 'for each in (b"", b"{", b"[]", b"{}", b"\\xff", b"[" * 100_000, b\'{"doing": 3}\'):\n    open(state, "wb").write(each); time.sleep(0.3)',
        "pass",
    ),
    "puts a pipe in place of its answer": (STATE + "os.unlink(state); os.mkfifo(state); time.sleep(1)", "pass"),
    "the same, and hangs": (STATE + "os.unlink(state); os.mkfifo(state)\nwhile True: pass", "fail"),
    "puts a folder in place of its answer": (STATE + "os.unlink(state); os.mkdir(state)", "fail"),
    "puts a file of 2 TB in place of its answer": (STATE + "os.truncate(state, 1 << 41)\nwhile True: pass", "fail"),
    "deletes the folder of its answer": ("shutil.rmtree(room())", "fail"),
    "deletes the project": ("shutil.rmtree(os.getcwd())", "any"),
    "closes all descriptors": ("os.closerange(0, 1024)", "any"),
    "writes to all descriptors": (
        'for fd in range(3, 1024):\n    try: os.write(fd, b\'{"pid": 1, "status": 0}\\nx\\n\')\n    except OSError: pass',
        "any",
    ),
    "replaces sys.stdout, sys.exit and os._exit": (
        "sys.stdout = sys.stderr = None; sys.exit = os._exit = lambda *_: None",
        "any",
    ),
    "calls os._exit(0)": ("os._exit(0)", "fail"),
    "floods stderr without end": ('while True: os.write(2, b"y" * 65536)', "fail"),
    "ignores all signals it can, and hangs": (
        "for each in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}: signal.signal(each, signal.SIG_IGN)\nwhile True: pass",
        "fail",
    ),
    "stops itself": ("os.kill(os.getpid(), signal.SIGSTOP)", "fail"),
    "forks, and both go on": ("os.fork()", "any"),
    "leaves a daemon that ignores signals": (
        "if not os.fork():\n    os.setsid()\n    if os.fork(): os._exit(0)\n    for each in (1, 2, 15): signal.signal(each, signal.SIG_IGN)\n    time.sleep(600)\ntime.sleep(0.5)",
        "pass",
    ),
    "forks without end": ("for _ in range(200):\n    if not os.fork(): time.sleep(600)\nwhile True: pass", "fail"),
    "kills its group": ("os.killpg(0, signal.SIGKILL)", "fail"),
    "fills memory": ("held = []\nwhile True: held.append(bytearray(50_000_000))", "fail"),
}
"""What a model does; whether its run then fails, or passes as far as the outputs that are compared."""


def hostile(_kills: int, _seed: int) -> Iterator[str]:
    """Each model alone, in a worker of its own; the one beside it that does nothing must be judged all the same."""
    ended: Counter[str] = Counter()
    worst = 0.0
    for name, (body, expected) in HOSTILE.items():
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made) / "project"
            folder.mkdir()
            lines = "".join(f"    {line}\n" for line in body.splitlines())
            (folder / "model.py").write_text(HOSTILE_HEAD + lines)
            (folder / "good.py").write_text(RUN)
            mark = f"abuse-{os.getpid()}-{name.replace(' ', '-')}"
            out = Path(made) / "report.json"
            began = time.monotonic()
            done = tcready(
                folder,
                "check",
                "model.py",
                "good.py",
                "--run",
                "-q",
                "--timeout",
                "40",
                "--memory",
                "2",
                "--output-format",
                "json",
                "-o",
                str(out),
                environment={"ABUSE": mark},
            )
            took = time.monotonic() - began
            worst = max(worst, took)
            time.sleep(0.3)
            if left := marked(mark):
                yield f"{name}: processes are left: {left}"
                for pid in left:
                    os.kill(pid, signal.SIGKILL)
            if name == "deletes the project" and "the working folder is gone" in done.stderr:
                ended["gone"] += 1
                continue
            if "Traceback" in done.stderr or not out.exists():
                yield f"{name}: exit {done.returncode}: {done.stderr[-500:]}"
                continue
            report = json.loads(out.read_text())
            states = {
                each["target"].partition(".")[0]: {stage["stage"]: stage["state"] for stage in each["stages"]}
                for each in report["targets"]
            }
            came_of_it = "fail" if "fail" in states["model"].values() else states["model"]["parity"]
            if expected not in ("any", came_of_it):
                yield f"{name}: {states['model']}"
            if name != "deletes the project" and states["good"]["capture"] != "pass":
                yield f"{name}: the model beside it is not judged"
            ended[came_of_it] += 1
    print(f"| hostile models | {len(HOSTILE)} | the run: {dict(ended)}; the longest took {worst:.0f} s |", flush=True)


def hostile_swept(_kills: int, _seed: int) -> Iterator[str]:
    """All of them in one sweep, side by side as it comes, and after each one that does nothing; but for the one that
    deletes the others."""
    names = [name for name in HOSTILE if name != "deletes the project"]
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) / "project"
        folder.mkdir()
        for number, name in enumerate(names):
            lines = "".join(f"    {line}\n" for line in HOSTILE[name][0].splitlines())
            (folder / f"m{number:02}.py").write_text(HOSTILE_HEAD + lines)
            (folder / f"m{number:02}_good.py").write_text(RUN)
        mark = f"abuse-{os.getpid()}-swept"
        began = time.monotonic()
        limits = ("--timeout", "40", "--memory", "2")
        told = ("--output-format", "json", "-o", str(Path(made) / "report.json"))
        done = tcready(folder, "sweep", ".", "-q", *limits, *told, environment={"ABUSE": mark})
        took = time.monotonic() - began
        time.sleep(0.3)
        if left := marked(mark):
            yield f"hostile models in a sweep: processes are left: {left}"
            for pid in left:
                os.kill(pid, signal.SIGKILL)
        if "Traceback" in done.stderr or not (Path(made) / "report.json").exists():
            yield f"hostile models in a sweep: exit {done.returncode}: {done.stderr[-500:]}"
            return
        models = json.loads((Path(made) / "report.json").read_text())["sweep"]["models"]
        states = {each["target"].partition(".")[0]: each["outcome"] for each in models}
        judged = 0
        for number, name in enumerate(names):
            beside = states.get(f"m{number:02}_good", {})
            judged += (beside.get("state"), beside.get("verdict"), beside.get("own_sites")) == ("run", "not_ready", 1)
            if f"m{number:02}" not in states:
                yield f"in a sweep, {name}: it has no row"
        if judged != len(names):
            yield f"in a sweep, {judged} of {len(names)} models beside the hostile ones are judged: {states}"
    print(f"| hostile models in one sweep | {len(names)} | {judged} judged beside them; {took:.0f} s |", flush=True)


PARTS: dict[str, Callable[[int, int], Iterator[str]]] = {
    **{name: functools.partial(kill, victim) for name, victim in VICTIMS.items()},
    "full": full,
    "clock": clock,
    "many": many,
    "many-swept": many_swept,
    "users": users,
    "together": together,
    "hostile": hostile,
    "hostile-swept": hostile_swept,
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=PARTS)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(arguments)
    print("| what | times | what came of it |\n|---|---|---|")
    wrong = []
    for name in args.only or PARTS:
        for each in PARTS[name](args.kills, args.seed):
            print(f"WRONG {each}", flush=True)
            wrong.append(each)
    print(f"wrong: {len(wrong)}")
    raise SystemExit(1 if wrong else 0)


if __name__ == "__main__":
    main()
