"""A pipe to a device over file descriptors: bounded waits, whatever is behind them."""

from __future__ import annotations

import os
import select
import time

from sdk.errors import LinkError, SdkError

__all__ = ["FdTransport"]

_CHUNK = 65536


class FdTransport:
    """A Transport over two descriptors, which may be the same; what is at their other end is said by who derives.

    Needs a system where poll() takes pipes, sockets and terminals alike: any but Windows.
    """

    emulated = False
    ns_per_instruction: float | None = None
    stuck = ""  # what to do where the other end takes no data

    def __init__(self, read_fd: int, write_fd: int, address: str, bytes_per_s: float) -> None:
        self.address = address
        self.bytes_per_s = bytes_per_s
        self._read_fd = read_fd
        self._write_fd = write_fd
        os.set_blocking(read_fd, False)
        os.set_blocking(write_fd, False)

    def read(self, timeout_s: float) -> bytes:
        """Return bytes that have come; see Transport. Raises what ``over`` says when the other end is closed."""
        if not _wait(self._read_fd, select.POLLIN, timeout_s):
            return b""
        try:
            data = os.read(self._read_fd, _CHUNK)
        except BlockingIOError:
            return b""
        except OSError as error:
            raise self.over(error) from error
        if not data:
            raise self.over(None)
        return data

    def write(self, data: bytes, timeout_s: float) -> None:
        """Write all of ``data``; see Transport."""
        deadline = time.monotonic() + timeout_s
        view = memoryview(data)
        while view:
            left = deadline - time.monotonic()
            if left <= 0 or not _wait(self._write_fd, select.POLLOUT, left):
                raise LinkError(
                    f"{self.address} takes no data",
                    why=f"{len(view)} of {len(data)} bytes were still unsent after {timeout_s:g} s",
                    hint=self.stuck,
                )
            try:
                view = view[os.write(self._write_fd, view) :]
            except BlockingIOError:
                continue
            except OSError as error:
                raise self.over(error) from error

    def over(self, error: OSError | None) -> SdkError:
        """The error that says how the other end ended; ``error`` is what the system says, None where it was closed."""
        raise NotImplementedError


def _wait(fd: int, event: int, timeout_s: float) -> bool:
    poll = select.poll()
    poll.register(fd, event)
    return bool(poll.poll(max(0.0, timeout_s) * 1000))
