"""Where a farm's scheduler is, and who may reach it: this machine's own address, or TLS on both sides."""

from __future__ import annotations

import logging
import ssl
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from sdk.agent.server import is_loopback
from sdk.errors import MissingToolError, UsageError
from sdk.installs import pip_command

__all__ = ["PORT", "Place", "dask"]

PORT: Final = 8786  # Dask's own
_TLS: Final = ("the certificates of those who are trusted", "the certificate", "its key")
# Nothing of Dask's answers HTTP; a worker that two jobs have ended is not given a third; workers may start programs.
SETTINGS: Final = {
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
    "distributed.scheduler.allowed-failures": 1,
    "distributed.worker.daemon": False,
    "distributed.comm.timeouts.connect": "10s",
    "distributed.admin.large-graph-warning-threshold": "1TB",
}


def dask() -> Any:
    """The package ``distributed``, with the settings of ours, and quiet: what it would log is told in our words.

    Raises:
        MissingToolError: it is not installed.
    """
    if find_spec("distributed") is None:
        raise MissingToolError("the package distributed is not installed", hint=pip_command("distributed"))
    distributed = import_module("distributed")
    import_module("dask.config").set(SETTINGS)
    for name in [name for name in logging.root.manager.loggerDict if name.split(".")[0] in ("distributed", "tornado")]:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return distributed


@dataclass(frozen=True)
class Place:
    """The address of a scheduler, as ``HOST``, ``HOST:PORT`` or ``[HOST]:PORT``; ``tls`` are files as Dask has them:
    the certificates of the authority, the own certificate, its key.

    Raises:
        UsageError: it is no address, or not of this machine and without TLS: Dask runs what it is sent by whoever
            reaches it.
    """

    host: str
    port: int
    tls: tuple[Path, Path, Path] | None = None

    def __post_init__(self) -> None:
        if self.tls is None and not is_loopback(self.host):
            raise UsageError(
                f"a farm at {self.host} needs TLS",
                why="Dask runs what it is sent, and others than this machine reach that address",
                hint="give --tls CA.pem CERT.pem KEY.pem, the same authority on all sides; sdk help devices says more",
            )

    @classmethod
    def read(cls, text: str, tls: tuple[Path, Path, Path] | None = None) -> Place:
        """What ``text`` names."""
        hint = "write HOST or HOST:PORT, as 127.0.0.1:8786"
        try:
            scheme, mark, rest = text.rpartition("://")
            bare = rest.count(":") > 1 and not rest.startswith("[")
            parts = urlsplit(f"//[{rest}]" if bare else f"//{rest}")
            port = PORT if parts.port is None else parts.port
        except ValueError as error:
            raise UsageError(f"{text!r} is no address of a farm", why=str(error), hint=hint) from None
        wanted = "tcp" if tls is None else "tls"
        if not parts.hostname or parts.path or parts.query or parts.username or (mark and scheme not in ("tcp", "tls")):
            raise UsageError(f"{text!r} is no address of a farm", hint=hint)
        if mark and scheme != wanted:
            why = "tls:// needs the files of --tls" if tls is None else "with --tls it is tls://"
            raise UsageError(f"{text!r} does not go with the other options", why=why, hint=hint)
        return cls(parts.hostname, port, tls)

    @property
    def bracketed(self) -> str:
        """The host as it stands before a port."""
        return f"[{self.host}]" if ":" in self.host else self.host

    @property
    def address(self) -> str:
        """As Dask takes it."""
        return f"{'tcp' if self.tls is None else 'tls'}://{self.bracketed}:{self.port}"

    @property
    def listening_host(self) -> str | None:
        """Where a worker listens: on a farm of this machine here alone; else Dask takes the address that is on the way
        to the scheduler."""
        return self.bracketed if self.tls is None else None

    def security(self) -> Any:
        """Dask's object of it; None without TLS.

        Raises:
            UsageError: a file cannot be read, or is not what it should be.
        """
        if self.tls is None:
            return None
        for file, what in zip(self.tls, _TLS, strict=True):
            if not file.is_file():
                raise UsageError(f"there is no file {file}", where="--tls", why=f"it would hold {what}",
                                 hint="write --tls CA.pem CERT.pem KEY.pem")  # fmt: skip
        ca, cert, key = map(str, self.tls)
        try:
            context = ssl.create_default_context(cafile=ca)
            context.load_cert_chain(cert, key)
        except (ssl.SSLError, OSError) as error:
            raise UsageError(f"TLS cannot be had of {ca}, {cert} and {key}", where="--tls", why=str(error),
                             hint="all in PEM: the authority, a certificate by it, and its key") from None  # fmt: skip
        both = {f"tls_{role}_{part}": file for role in ("scheduler", "worker", "client")
                for part, file in (("cert", cert), ("key", key))}  # fmt: skip
        return dask().Security(tls_ca_file=ca, require_encryption=True, **both)
