"""The Python face of a build: ``sdk.compile`` gives a ``Model`` that is called, measured and looked at."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from sdk.boards import Board, load_board
from sdk.devices.client import Session
from sdk.driver.artifact import Built, build_sources
from sdk.driver.execute import bench, connect, step
from sdk.driver.explain import memory
from sdk.driver.options import BuildOptions
from sdk.errors import UsageError
from sdk.report import BenchReport, MemoryReport

__all__ = ["Model", "compile"]


class Model:
    """A compiled model with a running agent behind it: this machine, or the board's emulated stand-in.

    Calls keep the model's state; ``reset()`` starts it anew; ``close()`` (or ``with``) ends the agent.
    """

    def __init__(self, path: Path, board: Board, options: BuildOptions) -> None:
        self.path, self.board, self.options = path, board, options
        self.report = build_sources(path, board, options).report
        self._open_session: tuple[Session, Built] | None = None

    def __call__(self, **inputs: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Outputs by name for inputs by name.

        Raises:
            UsageError: an input is missing or unknown, or has another type or shape than the model's.
        """
        session, built = self._open()
        info = session.models()[0]
        unknown = sorted(set(inputs) - {t.name for t in info.inputs})
        if unknown:
            raise UsageError(
                f"the model has no input {unknown[0]!r}",
                hint=f"it has {', '.join(t.name for t in info.inputs)}",
            )
        return step(session, built, inputs, {})[0]

    def _open(self) -> tuple[Session, Built]:
        if self._open_session is None:
            self._open_session = connect(self.path, self.board, None, self.options)[:2]
        return self._open_session

    def bench(self, repeat: int = 10) -> BenchReport:
        """Samples of single runs."""
        return bench(self.path, self.board, None, self.options, {}, repeat, self.options.threads)

    @property
    def memory(self) -> MemoryReport:
        """Where every byte of memory goes."""
        return memory(self.path, self.board, self.options)

    def reset(self) -> None:
        """Puts the model's state back to its start."""
        self._open()[0].reset(0)

    def close(self) -> None:
        """Ends the agent; a later call starts a new one."""
        if self._open_session is not None:
            self._open_session[0].close()
            self._open_session = None

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def compile(
    path: str | Path, board: str = "host", dims: Mapping[str, tuple[int, int]] | None = None, threads: int = 1
) -> Model:
    """Compiles a model file for a board.

    Args:
        path: a .tflite file.
        board: a name of ``sdk boards``.
        dims: inclusive bounds of each symbolic dimension.
        threads: threads of generated code; 1.

    Raises:
        SdkError: the file, the board or the model is not usable; see docs/errors.md.
    """
    return Model(Path(path), load_board(board), BuildOptions(dims=dims or {}, threads=threads))
