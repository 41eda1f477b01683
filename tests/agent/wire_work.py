"""What a session with the hand-written models does, and whether it comes out right."""

from __future__ import annotations

import random

from sdk.devices import Session


def work(session: Session, seed: int) -> None:
    """Writes, runs and reads of all sizes, each of which comes out right."""
    rng = random.Random(seed)
    session.reset(0)
    for call in range(3):
        data, big = rng.randbytes(64), rng.randbytes(2000)
        session.write(0, 0, data)
        session.run(0)  # executed once however often it had to be sent
        assert session.read(0, 1) == bytes((2 * x + call) & 0xFF for x in data)
        session.write(1, 0, big)
        assert len(session.run(1, dims=[500], repeat=40, warmup=2).samples) == 40
        assert session.read(1, 1) == big
        session.ping(rng.randbytes(20_000))
