"""``ssh://USER@HOST`` sends the agent's program to a machine with an SSH server, and talks to it there.

OpenSSH does it, so that what ``~/.ssh/config`` says holds, jump hosts and agents included, and host keys are checked as
the user has it. One connection carries all: a short script on the other side says whether the program is there, takes
the rest of it, checks its hash, and runs it.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import time
from urllib.parse import parse_qsl, urlsplit

from sdk.devices.base import OpenRequest, Transport, register
from sdk.devices.machine import HEAD_BYTES, foreign_machine, machine_name
from sdk.devices.process import Child, ProcessTransport, end_error, pipe_to, spawn
from sdk.errors import DeviceFault, LinkError, MissingToolError, NoDeviceError, SdkError, UsageError

_FORM = "ssh://HOST, ssh://USER@HOST:PORT, ssh://HOST?cores=2-3 or ssh://HOST?via=PROGRAM"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:%-]*")
_CORES = re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*")
_VIA = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./-]*")
_OPTIONS = (
    *("-T", "-a", "-x", "-o", "ConnectTimeout=15", "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3"),
    *("-o", "ClearAllForwardings=yes", "-o", "RemoteCommand=none", "-o", "PermitLocalCommand=no"),
)
_GREETING_S = 60.0  # somebody may have to type a password
_STEP_S = 60.0  # for a piece of the program on a slow line, and for its hash on a slow machine
_WATCH_S = 5  # between two looks whether the tool is still there
_END_S = 5.0  # for ssh to end once the other side has
_KEPT = 8  # programs
_MAX_TALK = 1 << 16  # bytes that a login may print
_CHUNK = 1 << 18
_SSH_FAILED = 255
_MARK = b"\ncrosslevel-1 "  # before each line of the script, which a login cannot but print by intent
# What runs at the other side, by whatever shell it has: so there are no single quotes and no exclamation marks in it. A
# program whose tool is gone would run for ever: writing to the tool fails then.
_SCRIPT = (
    "umask 077; ulimit -c 0; d=${{XDG_CACHE_HOME:-$HOME/.cache}}/crosslevel/ssh; f=$d/{name}; "
    'say() {{ echo; echo "{mark} $*"; }}; '
    'mkdir -p "$d" && cd "$d" || {{ say failed cannot make "$d"; exit 1; }}; '
    'command -v sha256sum >/dev/null || {{ say failed there is no sha256sum; exit 1; }}; '
    'if [ -x "$f" ] && [ -f "$f" ]; then touch "$f"; else '
    'have=0; [ -f "$f.part" ] && have=$(($(wc -c <"$f.part"))); '
    'if [ $have -gt {size} ]; then rm -f "$f.part"; have=0; fi; say send $have $(uname -m); '
    'head -c $(({size} - have)) >>"$f.part" || {{ say failed cannot write "$f.part"; exit 1; }}; '
    'sum=$(sha256sum <"$f.part"); if [ "${{sum%% *}}" = {name} ]; then chmod 500 "$f.part"; mv "$f.part" "$f"; else '
    'rm -f "$f.part"; say failed the program was damaged on the way; exit 1; fi; fi; '
    "ls -t | tail -n +{over} | while read -r old; do rm -f \"$old\"; done; "
    "say ready 0 $(uname -m); exec 3<&0; {prefix} \"$f\" <&3 & pid=$!; "
    "( trap \"\" PIPE; while sleep {watch} >/dev/null 2>&1 </dev/null; "
    "do echo >&2 || {{ kill -9 $pid; exit; }}; done ) "
    "<&- 3<&- >/dev/null & watch=$!; exec 3<&- >&- <&-; wait $pid; status=$?; kill $watch 2>/dev/null; exit $status"
)


class _Ssh(Child):
    """The ssh program: its end says how the program at the other side ended, or why there was no connection."""

    def last_words(self) -> str:
        """Return the end of what was written to standard error, without the signs of life."""
        return re.sub(r"\n{2,}", "\n", super().last_words())

    def ended(self) -> LinkError | DeviceFault:
        """Return the error that says how it ended."""
        try:
            status = self.process.wait(_END_S)
        except subprocess.TimeoutExpired:
            return super().ended()
        if status == _SSH_FAILED:
            return LinkError(f"the connection of {self.name} is lost", why=self.last_words())
        return end_error(self.name, 128 - status if status > 128 else status, self.last_words())


@register("ssh")
def open_ssh(request: OpenRequest) -> Transport:
    """Start ``request.artifact`` on the machine that the address names.

    Raises:
        UsageError: it is no address, or the program is for another machine.
        MissingToolError: there is no ssh here.
        NoDeviceError: ssh cannot connect, or the machine cannot take the program.
        LinkError, DeviceFault: it broke off, or the program died at once.
    """
    destination, prefix, emulated = _parsed(request.uri)
    if shutil.which("ssh") is None:
        raise MissingToolError("ssh is not installed", hint="apt-get install openssh-client")
    try:
        with request.artifact.open("rb") as file:
            head = file.read(HEAD_BYTES)
            file.seek(0)
            name, size = hashlib.file_digest(file, "sha256").hexdigest(), file.tell()
    except OSError as error:
        raise NoDeviceError("there is no program to send", where=str(request.artifact), why=error.strerror) from None
    facts = {"name": name, "size": size, "mark": _MARK.decode().strip(), "over": _KEPT + 1, "watch": _WATCH_S}
    script = _SCRIPT.format(prefix=prefix, **facts)
    argv = ["ssh", *_OPTIONS, *destination, f"exec sh -c '{script}'"]
    child = spawn(argv, f"the program at {request.uri}", piped=True)
    transport = pipe_to(_Ssh(child.process, child.stderr_fd, child.name), request.uri, emulated=emulated)
    try:
        _prepare(transport, request, size, b"" if emulated else head)
    except BaseException:
        transport.close()
        raise
    return transport


def _parsed(uri: str) -> tuple[list[str], str, bool]:
    """What ssh is told of the destination, what the program is started with, and whether that emulates."""
    try:
        parts = urlsplit(uri)
        options = dict(parse_qsl(parts.query, strict_parsing=bool(parts.query)))
        port = parts.port
    except ValueError as error:
        raise UsageError(f"{uri!r} is not a device address", why=str(error), hint=_FORM) from None
    cores, via = options.pop("cores", ""), options.pop("via", "")
    host, user = parts.hostname or "", parts.username or ""
    extra = parts.path.strip("/") or parts.fragment or parts.password or ", ".join(options)
    for value, form in ((host, _NAME), (user, _NAME), (cores, _CORES), (via, _VIA)):
        if value and not form.fullmatch(value):  # a shell at the other side reads some of them, and ssh its options
            extra = extra or value
    if not host or extra:
        why = f"what is {extra!r}?" if extra else "it names no machine"
        raise UsageError(f"{uri!r} is not a device address", why=why, hint=_FORM)
    words = (["-l", user] if user else []) + (["-p", str(port)] if port else [])
    prefix = " ".join([f"taskset -c {cores}"] * bool(cores) + [via] * bool(via))
    return [*words, "--", host], prefix, bool(via)


def _prepare(transport: ProcessTransport, request: OpenRequest, size: int, head: bytes) -> None:
    """Have the program at the other side, and started."""
    talk, deadline = b"", time.monotonic() + _GREETING_S
    while True:
        word, rest, talk = _next_word(transport, request.uri, talk, deadline)
        if word == "failed":
            raise NoDeviceError(f"{request.uri} cannot take the program", why=rest, hint="make room or mend it there")
        count, _, machine = rest.partition(" ")
        other = foreign_machine(head, machine_name(machine.strip())) if head else None
        if other is not None:
            raise UsageError(
                f"{request.uri} cannot run this board's programs",
                why=f"the program is for {other}, that machine is {machine.strip()}",
                hint="choose the board that the machine is with --board; sdk boards lists them",
            )
        if word == "ready":
            transport.put_back(talk)
            return
        if word != "send" or not count.isdigit() or int(count) > size:
            raise LinkError(f"{request.uri} answers something else than was asked", why=f"{word} {rest}"[:200])
        with request.artifact.open("rb") as file:
            file.seek(int(count))
            while data := file.read(_CHUNK):
                transport.write(data, _STEP_S)
        deadline = time.monotonic() + _STEP_S


def _next_word(transport: ProcessTransport, uri: str, talk: bytes, deadline: float) -> tuple[str, str, bytes]:
    """The next line that the script says, in its first word and the rest; what a login prints before is skipped."""
    while True:
        begin = talk.find(_MARK)
        if begin >= 0 and (end := talk.find(b"\n", begin + 1)) >= 0:
            word, _, rest = talk[begin + len(_MARK) : end].decode("utf-8", "replace").partition(" ")
            return word, rest, talk[end + 1 :]
        left = deadline - time.monotonic()
        if left <= 0 or len(talk) > _MAX_TALK:
            raise LinkError(f"{uri} did not get ready", why=f"it printed {talk[-200:]!r}", hint=f"try: ssh {uri}")
        try:
            talk += transport.read(left)
        except (LinkError, DeviceFault) as error:
            raise _unreachable(uri, error) from None


def _unreachable(uri: str, error: SdkError) -> NoDeviceError:
    hint = f"ssh {uri.partition('?')[0]} must work by itself first: it asks about the host's key, and for passwords"
    return NoDeviceError(f"ssh cannot use {uri}", why=error.why, hint=hint)
