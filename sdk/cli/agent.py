"""``sdk agent``: lets other machines run, verify and measure models on this one."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from sdk.cli import options, output
from sdk.errors import UsageError
from sdk.files import replacing

NAME = os.name


@click.command()
@click.option("--listen", metavar="HOST[:PORT]", default="127.0.0.1", show_default=True, help="Where to be reached.")
@click.option("--pair", is_flag=True, help="Print the code that lets others in; make one where there is none.")
@click.option("--trust", metavar="CODE", help="Remember an agent's code, to use that agent from here; start nothing.")
@click.option("--key", type=click.Path(path_type=Path), metavar="FILE", help="File with this agent's code.")
@click.option("--folder", type=click.Path(path_type=Path), metavar="DIR", help="Private folder for programs.")
@click.option("--quota", metavar="BYTES", default="2G", show_default=True, help="Programs kept, the newest first.")
@click.option("--memory", metavar="BYTES", help="Most that a program may hold.  [default: 4/5 of what is free]")
@click.option("--disk", metavar="BYTES", default="256M", show_default=True, help="Most that a program may write.")
@click.option("--build", metavar="MACHINE", help="Make an agent for a machine without Python (uname -m there says).")
@click.option("-o", "--output", "out", type=click.Path(path_type=Path), metavar="FILE", help="Where --build puts it.")
@options.json_option
def agent(
    listen: str,
    pair: bool,
    trust: str | None,
    key: Path | None,
    folder: Path | None,
    quota: str,
    memory: str | None,
    disk: str,
    build: str | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Let the tool use this machine as a device (--device tcp://HOST:PORT), until it is interrupted.

    Whoever has its code can run programs as you. Without a code only this machine's own addresses are served.
    """
    from sdk.devices import keys

    if trust is not None:
        path = keys.known_keys_file()
        new = keys.add_code(path, trust)
        _say(as_json, {"file": str(path), "new": new}, f"{'added to' if new else 'already in'} {path}")
        return
    if build is not None:
        _build(build, out, as_json)
        return
    if NAME != "posix":
        raise UsageError("agents need Linux or another Unix", why=f"this system is {NAME}")
    import platformdirs

    from sdk.agent import Limits, Server
    from sdk.agent.announce import announced
    from sdk.agent.server import is_loopback
    from sdk.boards import parse_size

    host, port = _address(listen)
    path = key or keys.agent_key_file()
    limits = Limits(
        programs=parse_size(quota, "--quota"),
        memory=0 if memory is None else parse_size(memory, "--memory"),
        disk=parse_size(disk, "--disk"),
    )
    found = keys.own_key(path, create=pair) if pair or key or not is_loopback(host) else None
    place = folder or platformdirs.user_cache_path("crosslevel") / "agent"
    server = Server(host, port, place, found and found[0], limits)
    try:
        shown = f"[{server.address[0]}]" if ":" in server.address[0] else server.address[0]
        data: dict[str, object] = {"address": f"tcp://{shown}:{server.address[1]}", "keyed": found is not None}
        lines = [f"listening at {data['address']}; Ctrl-C ends it"]
        if pair and found is not None:
            data["code"] = found[1]
            lines += [f"code: {found[1]}", f"on the other machine: sdk agent --trust {found[1]}"]
        if found is None:
            lines.append("this machine alone can reach it; --pair --listen 0.0.0.0 lets those in that have its code")
        with announced(server.address, found and found[0]) as data["announced"]:
            _say(as_json, data, *lines)
            server.serve()
    finally:
        server.close()


def _build(machine: str, out: Path | None, as_json: bool) -> None:
    """Make an agent for another machine."""
    from sdk.driver.agent_programs import agent_program

    if out is None:
        raise UsageError("--build says no file", hint=f"sdk agent --build {machine} -o sdk-agent")
    data = agent_program(machine).read_bytes()
    try:
        with replacing(out) as file:
            file.write(data)
        out.chmod(0o755)
    except OSError as error:
        raise UsageError(f"cannot write {out}", why=error.strerror, hint="-o FILE names another place") from None
    line = f"on the machine: {out.name} --folder DIR --pair --listen 0.0.0.0"
    _say(as_json, {"file": str(out), "bytes": len(data)}, f"{out}: {len(data)} bytes", line)


def _say(as_json: bool, data: dict[str, object], *lines: str) -> None:
    if as_json:
        output.print_json(data)
    else:
        for line in lines:
            output.say(line)
    sys.stdout.flush()  # whoever started it in the background wants to know the address


def _address(text: str) -> tuple[str, int]:
    """The host and port that ``HOST``, ``HOST:PORT`` or ``[HOST]:PORT`` name."""
    from urllib.parse import urlsplit

    from sdk.devices.channel import PORT

    try:
        parts = urlsplit(f"//{text}" if text.count(":") < 2 or text.startswith("[") else f"//[{text}]")
        port = PORT if parts.port is None else parts.port
    except ValueError as error:
        raise UsageError(f"--listen {text} is no address", why=str(error), hint="--listen 0.0.0.0:7747") from None
    if not parts.hostname or parts.path or parts.username:
        raise UsageError(f"--listen {text} is no address", hint="--listen 0.0.0.0:7747")
    return parts.hostname, port
