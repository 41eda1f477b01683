"""An SSH server of a test's own on this machine, which knows one key, and an ssh program that knows the server."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from agent_lab import until


@dataclass
class SshServer:
    """A server, where what it is sent goes, and the ``path`` on which programs find the ssh that knows it."""

    uri: str
    folder: Path
    agent: Path
    known_hosts: Path
    config: Path
    path: str


def keygen(path: Path) -> str:
    """A new key without a password; its public part."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
    return path.with_suffix(".pub").read_text(encoding="utf-8")


@contextmanager
def ssh_server(folder: Path, sshd: str, ssh: str, agent: Path) -> Iterator[SshServer]:
    """A server while the block runs: ``ssh://pi`` for whoever has its ``path``; agents are kept below ``folder``."""
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # it refuses to start as root without
    host, mine = keygen(folder / "host"), keygen(folder / "mine")
    (folder / "authorized").write_text(mine)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (folder / "sshd_config").write_text(
        f"ListenAddress 127.0.0.1\nPort {port}\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/authorized\n"
        f"StrictModes no\nUsePAM no\nPasswordAuthentication no\nPidFile none\nPermitRootLogin yes\n"
        f"SetEnv XDG_CACHE_HOME={folder}/cache\n"
    )
    (folder / "known").write_text(f"[127.0.0.1]:{port} {host}")
    config = folder / "ssh_config"
    config.write_text(
        f"IdentityFile {folder}/mine\nIdentitiesOnly yes\nUserKnownHostsFile {folder}/known\n"
        "StrictHostKeyChecking yes\nBatchMode yes\n"
        f"Host pi\nHostName 127.0.0.1\nPort {port}\nHostKeyAlias [127.0.0.1]:{port}\n"
    )
    (folder / "bin").mkdir()
    (folder / "bin" / "ssh").write_text(f'#!/bin/sh\nexec {ssh} -F {config} "$@"\n')
    (folder / "bin" / "ssh").chmod(0o755)
    process = subprocess.Popen([sshd, "-D", "-e", "-f", str(folder / "sshd_config")], stderr=subprocess.DEVNULL)

    def listens() -> bool:
        assert process.poll() is None
        with socket.socket() as sock:
            return sock.connect_ex(("127.0.0.1", port)) == 0

    try:
        until(listens)
        path = f"{folder}/bin:{os.environ['PATH']}"
        yield SshServer("ssh://pi", folder / "cache" / "crosslevel", agent, folder / "known", config, path)
    finally:
        process.terminate()
        process.wait()
