"""What the operating system says about a process: its CPU time, its memory, its cores. Linux only."""

from __future__ import annotations

import os
import platform
import resource
import time
from contextlib import suppress
from pathlib import Path

import trio

SERVER_CORE, CLIENT_CORE = 0, 1


def pin(core: int, pid: int = 0) -> None:
    """Keep a process (0: this one) on one core, where there is more than one and the system allows it."""
    if hasattr(os, "sched_setaffinity") and (os.cpu_count() or 1) > 1:
        with suppress(OSError):
            os.sched_setaffinity(pid, {core})


def cpu_seconds(pid: int) -> float:
    """User and system time of all threads of a process, to the nanosecond where the kernel keeps it."""
    total = 0
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            total += int((task / "schedstat").read_text().split()[0])
    except FileNotFoundError:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total / 1e9


def asleep(step: float, seconds: float) -> float:
    """The share of a core that a Trio loop takes which only sleeps, ``step`` seconds at a time.

    A core that has slept runs cold: a program that wakes up often pays more for that than for its work.
    """

    async def sleep() -> None:
        start = trio.current_time()
        for tick in range(1, round(seconds / step) + 1):
            await trio.sleep_until(start + tick * step)

    before, clock = time.process_time(), time.perf_counter()
    trio.run(sleep)
    return (time.process_time() - before) / (time.perf_counter() - clock)


def private_bytes(pid: int) -> int:
    """Memory that only this process has; what the kernel keeps for its sockets is not in it."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) * 1024


def allow_files(count: int) -> int:
    """Raise this process's limit of open files as far as need be and may be; the limit now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count if hard == resource.RLIM_INFINITY else min(count, hard)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return max(soft, wanted)


def described() -> dict[str, object]:
    """Where a run was made, and how busy the machine was when it began."""
    return {
        "python": platform.python_version(),
        "trio": trio.__version__,
        "system": f"{platform.system()} {platform.release()}",
        "cores": os.cpu_count() or 1,
        "load": round(os.getloadavg()[0], 2),
    }
