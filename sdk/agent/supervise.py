"""Runs one program for `sdk agent`, watches it, and ends it with all that it started; a program of its own.

It is started by its path, isolated and without site packages, and so imports nothing of the package. Where Linux offers
it, it becomes the parent of whatever the program leaves behind, so that nothing escapes by leaving its process group.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import select
import shutil
import signal
import struct
import sys
import time

REPORT = struct.Struct("<BiQQ")  # how (as channel.Ended), value, most resident bytes, nanoseconds of processor time
EXITED, SIGNAL, MEMORY, DISK, NOT_STARTED, STOPPED, PROCESSES = range(7)
_STEP_S = 0.05  # between two looks at the memory
_DISK_STEP_S = 0.5
_MAX_FILES = 10_000
_MAX_OPEN_FILES = 256
_MAX_PROCESSES = 512
_KILL_ROUNDS = 200
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def main(arguments: list[str]) -> int:
    """Run the program, report how it ended, and leave nothing of it."""
    program, folder = arguments[:2]
    memory, disk, cores, report, lifeline = (int(argument) for argument in arguments[2:])
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    woken, wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK) if hasattr(os, "pipe2") else _pipe()
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the agent ends it by the lifeline
    said, say = os.pipe()
    child = os.fork()
    if child == 0:
        _become(program, folder, disk, cores, say, (report, lifeline, said))
    os.close(say)
    for fd in (0, 1):
        os.close(fd)  # the program's alone: their end is its end
    error = int.from_bytes(os.read(said, 4), "little")
    os.close(said)
    if error:
        os.waitpid(child, 0)
        how, value, peak, cpu = NOT_STARTED, error, 0, 0
    else:
        how, value, peak, cpu = _watch(child, folder, memory, disk, lifeline, woken)
    _kill_all()
    shutil.rmtree(folder, ignore_errors=True)
    os.write(report, REPORT.pack(how, value, peak, cpu))
    return 0


def _become(program: str, folder: str, disk: int, cores: int, say: int, others: tuple[int, ...]) -> None:
    """In the child: give up what it is not to have, and become the program; say the error's number where that fails."""
    try:
        for fd in others:
            os.close(fd)
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        os.chdir(folder)
        limits = {resource.RLIMIT_CORE: 0, resource.RLIMIT_FSIZE: disk, resource.RLIMIT_NOFILE: _MAX_OPEN_FILES}
        for what, maximum in limits.items():
            hard = resource.getrlimit(what)[1]
            minimum = maximum if hard == resource.RLIM_INFINITY else min(maximum, hard)
            resource.setrlimit(what, (minimum, minimum))
        with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
            file.write("1000")  # where memory ends before our limit, it goes first
        if cores:
            os.sched_setaffinity(0, [core for core in range(64) if cores >> core & 1])
        os.set_inheritable(say, False)
        environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": folder, "TMPDIR": folder, "LANG": "C"}
        os.execve(program, [program], environment)
    except OSError as error:
        os.write(say, (error.errno or 1).to_bytes(4, "little"))
    except (AttributeError, ValueError):
        os.write(say, (22).to_bytes(4, "little"))
    os._exit(127)


def _watch(child: int, folder: str, memory: int, disk: int, lifeline: int, woken: int) -> tuple[int, int, int, int]:
    """Wait for the end, ours or its; return what to report."""
    poll = select.poll()
    poll.register(lifeline, select.POLLIN | select.POLLHUP)
    poll.register(woken, select.POLLIN)
    how, peak, next_disk = EXITED, 0, time.monotonic() + _DISK_STEP_S
    while True:
        ready = poll.poll(_STEP_S * 1000)
        with contextlib.suppress(BlockingIOError):
            os.read(woken, 4096)
        if any(fd == lifeline for fd, _ in ready):
            how = STOPPED  # the agent says so, or is no more
        ended = os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is not None:
            break
        below = _descendants()
        held = sum(_resident(pid) for pid in below)
        peak = max(peak, held)
        if memory and held > memory:
            how = MEMORY
        elif len(below) > _MAX_PROCESSES:
            how = PROCESSES
        if time.monotonic() >= next_disk:
            how = DISK if how == EXITED and _used(folder) > disk else how
            next_disk = time.monotonic() + _DISK_STEP_S
        _reap(child)
        if how != EXITED:
            os.kill(child, signal.SIGKILL)
            break
    _, status, usage = os.wait4(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if how == EXITED and code < 0:
        how, code = (DISK if -code == signal.SIGXFSZ else SIGNAL), -code
    scale = 1 if sys.platform == "darwin" else 1024
    return how, code, max(peak, usage.ru_maxrss * scale), int((usage.ru_utime + usage.ru_stime) * 1e9)


def _reap(child: int) -> None:
    """Take the ends of what was left to us by the program."""
    while True:
        try:
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if found is None or found.si_pid == child:
            return
        os.waitpid(found.si_pid, 0)


def _kill_all() -> None:
    """End all that is below us. It is stopped first: what is stopped starts nothing new."""
    for _ in range(_KILL_ROUNDS):
        found = _descendants()
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in found:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.005)


def _descendants() -> list[int]:
    """The processes below this one, where /proc tells them."""
    found, at = [os.getpid()], 0
    while at < len(found):
        for task in _listed(f"/proc/{found[at]}/task"):
            path = f"/proc/{found[at]}/task/{task}/children"
            with contextlib.suppress(OSError), open(path, encoding="ascii") as file:
                found += [int(pid) for pid in file.read().split()]
        at += 1
    return found[1:]


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _resident(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except (OSError, IndexError):
        return 0


def _used(folder: str) -> int:
    """Bytes on disk below a folder; endless where there are very many files."""
    total = count = 0
    for where, folders, files in os.walk(folder):
        for name in (*folders, *files):
            count += 1
            if count > _MAX_FILES:
                return 1 << 63
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(where, name)).st_blocks * 512
    return total


def _pipe() -> tuple[int, int]:
    ends = os.pipe()
    for end in ends:
        os.set_blocking(end, False)
    return ends


def _prctl(what: int, value: int) -> None:
    """Linux alone has it; without it a program's descendants are found as long as their parents live."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(what, value, 0, 0, 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
