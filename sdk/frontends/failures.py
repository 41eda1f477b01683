"""What an import could not do: nodes that failed, reported all at once, and sizes that no tensor can have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sdk.compiler.ir.graph import Value
from sdk.compiler.sym import prove_ge
from sdk.errors import BuildError
from sdk.text import printable

__all__ = ["OUT_OF_MEMORY", "UNSUPPORTED", "Failure", "check_sizes", "report"]

SHOWN: Final = 20  # failures that a report lists
UNSUPPORTED: Final = "unsupported operator"  # how the cause of a node without converter begins
OUT_OF_MEMORY: Final = "the constants that it becomes need more memory than there is"

@dataclass(frozen=True)
class Failure:
    """A node that was not imported: its operator, place and cause, and what the converter advises."""

    op: str
    where: str
    why: str
    hint: str | None = None


def report(failures: Sequence[Failure], operators: str, sizes: str) -> BuildError:
    """One error for all of them. The hint is ``operators`` where some are missing, else what the
    converter of the first advises, or ``sizes`` where its sizes are not known to agree."""
    lines = [printable(f"{f.where}: {f.why}") for f in failures[:SHOWN]]  # names may hold ends of lines
    if len(failures) > SHOWN:
        lines.append(f"and {len(failures) - SHOWN} more")
    names = sorted({f.op for f in failures})
    count = "1 node" if len(failures) == 1 else f"{len(failures)} nodes"
    missing = any(f.why.startswith(UNSUPPORTED) and not f.hint for f in failures)
    own = [f.hint or sizes for f in failures if f.hint or "not known to" in f.why]
    hint = next(iter([operators] if missing else own), operators)
    message = f"{count} of the model cannot be imported: {', '.join(names[:SHOWN])}"
    return BuildError(message, where="\n    ".join(lines), hint=hint)


def check_sizes(results: Sequence[Value | None]) -> None:
    """Refuses results with an axis that is below 0 for some of the sizes allowed.

    Raises:
        BuildError: names the axis and its extent.
    """
    for value in results:
        for axis, extent in enumerate(value.type.shape if isinstance(value, Value) else ()):
            if prove_ge(extent, 0) is not True:
                raise BuildError(
                    f"its result has {extent} elements on axis {axis}, fewer than 0 for some of the sizes allowed",
                    hint="raise the lower bound: --dim n=LO:HI",
                )
