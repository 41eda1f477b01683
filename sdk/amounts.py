"""Weights and multiply-accumulates of a model, said alike by every command that knows them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

__all__ = ["UNKNOWN", "Amount", "amounts_json", "named_macs", "named_weights"]

_WHERE: Final = {"model": "in the model", "compiled": "as compiled"}


@dataclass(frozen=True)
class Amount:
    """A number twice: of the model as imported, and of the code that was compiled of it. The compiler prunes and folds,
    and lays constants out for its kernels, so the two differ. None: not known, or nothing was compiled."""

    model: int | None = None
    compiled: int | None = None

    def named(self, what: str) -> Iterator[tuple[str, int | None]]:
        """Both with their names: "weights in the model", "weights as compiled"."""
        yield from ((f"{what} {_WHERE[side]}", value) for side, value in asdict(self).items())


UNKNOWN: Final = Amount()


def named_weights(weights: Amount) -> Iterator[tuple[str, int | None]]:
    """Bytes of constants, with their names."""
    return weights.named("weights")


def named_macs(macs: Mapping[str, Amount]) -> Iterator[tuple[str, int | None]]:
    """Multiply-accumulates of a run of each entry, with their names."""
    for entry, amount in macs.items():
        yield from amount.named("MACs" if len(macs) == 1 else f"MACs of {entry}")


def amounts_json(weights: Amount, macs: Mapping[str, Amount]) -> dict[str, Any]:
    """The fields ``weights`` and ``macs`` of JSON objects."""
    return {"weights": asdict(weights), "macs": {entry: asdict(amount) for entry, amount in macs.items()}}
