"""Writes, runs and reads of the hand-written models."""

from __future__ import annotations

import random

from sdk.devices import Session

__all__ = ["one_call"]


def one_call(session: Session, rng: random.Random, call: int) -> None:
    """What both models are given and give back, the ``call``-th time since a reset, which comes out right."""
    data, big = rng.randbytes(64), rng.randbytes(2000)
    session.write(0, 0, data)
    session.run(0)  # executed once however often it had to be sent
    assert session.read(0, 1) == bytes((2 * x + call) & 0xFF for x in data)
    session.write(1, 0, big)
    assert len(session.run(1, dims=[500], repeat=40, warmup=2).samples) == 40
    assert session.read(1, 1) == big
