"""What a session with the hand-written models does, and whether it comes out right."""

from __future__ import annotations

import random

from one_call import one_call

from sdk.devices import Session


def work(session: Session, seed: int) -> None:
    """Writes, runs and reads of all sizes, each of which comes out right."""
    rng = random.Random(seed)
    session.reset(0)
    for call in range(3):
        one_call(session, rng, call)
        session.ping(rng.randbytes(20_000))
