"""Agents that mean ill, thousands of them: each call ends in time, with a result or an SdkError, in bounded memory."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hostile_agent import BYTES_PER_S, HostileAgent
from in_process import Clock

from sdk.boards import load_board
from sdk.compiler.sym import Var
from sdk.devices import Session, Transport
from sdk.devices.base import open_transport
from sdk.devices.link import Link
from sdk.devices.messages import (
    MAX_DIMS,
    MAX_MODELS,
    MAX_TENSORS,
    MAX_TEXT,
    DimInfo,
    ModelInfo,
    at_most,
    pack,
    parse_dim,
    parse_hello_ack,
    parse_tensor,
    take_text,
)
from sdk.devices.wire import Decoder, Frame
from sdk.driver.agents import link_agent
from sdk.driver.built import Built
from sdk.driver.device_model import as_built
from sdk.driver.execute import connect, prepare, resolve, step
from sdk.driver.options import BuildOptions
from sdk.driver.profiling import _ticks
from sdk.errors import LinkError, SdkError, UsageError
from sdk.text import wire_name

TIMEOUT_S, DEADLINE_S = 1.0, 3.0
SESSIONS, MANY_SESSIONS = 1500, 40_000
MAX_READ_BYTES = 500  # bytes of a tensor
SLOW_S = DEADLINE_S + TIMEOUT_S + 2.0  # a call: its deadline, a last wait, a cancelled run
MAX_MEMORY_BYTES = 24 << 20


def calls(session: Session) -> list[Callable[[], object]]:
    """What a caller may do with what a device says it has."""
    found: list[Callable[[], object]] = [session.stats, lambda: session.ping(b"x" * 40), session.profile]
    try:
        models = session.models()
    except SdkError:
        return found
    for number, info in enumerate(models[:4]):
        dims = [dim.lo for dim in info.dims]
        found += [
            lambda n=number: session.reset(n),
            lambda n=number, d=dims: session.run(n, dims=d, repeat=40, warmup=1),
            lambda n=number: session.selftest(n),
        ]
        for k, tensor in enumerate(info.tensors[:4]):
            size = min(tensor.nbytes, MAX_READ_BYTES)
            found.append(lambda n=number, k=k, size=size: session.write(n, k, bytes(size)))
            found.append(lambda n=number, k=k, size=size: session.read(n, k, size))
    return found


def timed(clock: Clock, call: Callable[[], object], seconds: float) -> object:
    """What ``call`` returns, None for an SdkError; anything else, and more time than that, fails."""
    began, found, told = clock.now, None, ""
    try:
        found = call()
    except SdkError as error:
        told = str(error)
    assert clock.now - began < seconds
    assert all(line.isprintable() for line in told.split("\n"))
    return found


def attack(seed: int) -> int:
    """One session; how many calls went well."""
    clock, well = Clock(), 0
    link = Link(HostileAgent(seed, clock), TIMEOUT_S, deadline_s=DEADLINE_S, clock=clock)
    session = timed(clock, lambda: Session(link), 3 * SLOW_S)
    if isinstance(session, Session):
        for call in calls(session):
            well += timed(clock, call, 2 * SLOW_S + 4 * MAX_READ_BYTES / BYTES_PER_S) is not None
    timed(clock, link.close, 1.0)
    return well


def test_hostile_agents_cost_a_bounded_time() -> None:
    well = sum(attack(seed) for seed in range(SESSIONS))
    assert well > SESSIONS  # the agents are no mere noise: calls do get answers


@pytest.mark.slow
def test_very_many_hostile_agents_cost_a_bounded_time() -> None:
    assert sum(attack(seed) for seed in range(SESSIONS, MANY_SESSIONS)) > MANY_SESSIONS


def test_hostile_agents_cost_bounded_memory() -> None:
    tracemalloc.start()
    try:
        for seed in range(30):
            attack(seed)
        assert tracemalloc.get_traced_memory()[1] < MAX_MEMORY_BYTES
    finally:
        tracemalloc.stop()


# Each limit by itself.


def ack(models: int, text: bytes = b"\x02ab") -> bytes:
    return pack("BBIHBBIIIHHi5I", 1, 1, 9, 7, 1, 0, 512, 512, 1000, models, 0, 0, *[0] * 5, data=text)


def tensor(shape: tuple[int, ...], nbytes: int, dtype: int = 1, scale: float = 0.0) -> bytes:
    extents = [*shape, *[0] * (8 - len(shape))]
    return pack("BBIfi8i", dtype, len(shape), nbytes, scale, 0, *extents, data=b"\x01x")


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: parse_hello_ack(ack(MAX_MODELS + 1)), "claims to have 257 models"),
        (lambda: parse_hello_ack(ack(1, bytes([MAX_TEXT + 1]) + bytes(80))), "65 bytes of text in a greeting"),
        (lambda: take_text(b"\x05abcd", "name"), "malformed name"),
        (lambda: at_most(MAX_TENSORS + 1, MAX_TENSORS, "tensors"), "claims to have 1025 tensors"),
        (lambda: parse_tensor(tensor((4, 16), 65)), "a tensor that cannot be"),
        (lambda: parse_tensor(tensor((-4, -16), 64)), "a tensor that cannot be"),
        (lambda: parse_tensor(tensor((65536, 65536, 4), 1 << 31)), "a tensor that cannot be"),
        (lambda: parse_tensor(tensor((4,), 15, dtype=9)), "a tensor that cannot be"),
        (lambda: parse_tensor(tensor((4,), 4, scale=float("nan"))), "a tensor that cannot be"),
        (lambda: parse_tensor(tensor((4,), 4, scale=-0.5)), "a tensor that cannot be"),
        (lambda: parse_dim(pack("Hii", 0, 5, 4, data=b"\x01n")), "a dimension that cannot be"),
        (lambda: parse_dim(pack("Hii", 0, -5, 4, data=b"\x01n")), "a dimension that cannot be"),
    ],
)
def test_limits(call: Callable[[], object], says: str) -> None:
    with pytest.raises(LinkError, match=says) as caught:
        call()
    assert caught.value.hint or caught.value.advice


def test_the_limits_hold_what_is_good() -> None:
    assert parse_hello_ack(ack(MAX_MODELS, bytes([MAX_TEXT]) + bytes(MAX_TEXT))).model_count == MAX_MODELS
    assert parse_tensor(tensor((4, 16), 64)).nbytes == 64
    assert parse_tensor(tensor((), 4, dtype=9)).shape == ()
    assert parse_tensor(tensor((0, 7), 0)).nbytes == 0
    assert at_most(MAX_DIMS, MAX_DIMS, "dims") == MAX_DIMS


def test_an_endless_list_of_tensors_ends_at_the_deadline() -> None:
    """Each answer comes in time, and there are too many: the calls of ``models`` have one deadline together."""

    class Slow(HostileAgent):
        def read(self, timeout_s: float) -> bytes:
            self.clock.now += 1.0
            return super().read(timeout_s)

    clock = Clock()
    agent = Slow(1, clock)
    agent._spite, agent._bounds, agent._dribble = 0.0, {"models": 200, "tensors": 300}, False
    agent._text = lambda evil=False: b"\x01x"
    session = Session(Link(agent, 100.0, deadline_s=30.0, clock=clock))
    began = clock.now
    with pytest.raises(LinkError, match="is not done after 30 s in all"):
        session.models()
    assert clock.now - began < 35


class Liar:
    """A Transport to a good agent, of which some answers are changed by a seed, in frames that are valid."""

    def __init__(self, inner: Transport, seed: int) -> None:
        self.address, self.emulated = inner.address, inner.emulated
        self.bytes_per_s, self.ns_per_instruction = inner.bytes_per_s, inner.ns_per_instruction
        self.write, self.close = inner.write, inner.close
        self._read, self._random, self._decoder = inner.read, random.Random(seed), Decoder(65536)
        self._rate = self._random.choice((0.02, 0.1, 0.3))

    def read(self, timeout_s: float) -> bytes:
        return b"".join(self._told(frame).encode() for frame in self._decoder.feed(self._read(timeout_s)))

    def _told(self, frame: Frame) -> Frame:
        payload = bytearray(frame.payload)
        if payload and self._random.random() < self._rate:
            for _ in range(self._random.randrange(1, 3)):
                value = self._random.choice((0, 1, 2, 8, 9, 127, 128, 255, self._random.randrange(256)))
                payload[self._random.randrange(min(len(payload), 60))] = value
        return replace(frame, payload=bytes(payload))


def test_the_driver_takes_lies_for_errors(root: Path) -> None:
    """Whatever a device answers, a run and a measurement end in results or in an SdkError."""
    digits = root / "examples" / "digits" / "digits_int8.tflite"
    built, board = resolve(digits, load_board("host"), BuildOptions())
    agent, good, bad = link_agent(built.sources, board, BuildOptions()), 0, 0
    for seed in range(150):
        try:
            line = Liar(open_transport("local:", agent, None, TIMEOUT_S), seed)
            with Session(Link(line, 0.5, deadline_s=TIMEOUT_S)) as session:
                number, dims = prepare(session, built, None, {})
                session.run(number, dims=list(dims.values()), repeat=3)
                step(session, built, {"image": np.zeros((1, 8, 8, 1), np.int8)}, {})
                good += 1
        except SdkError:
            line.close()
            bad += 1
    assert min(good, bad) > 30


@pytest.fixture(scope="module")
def built_model(root: Path) -> tuple[Built, ModelInfo]:
    digits = root / "examples" / "digits" / "digits_int8.tflite"
    session, built, _ = connect(digits, load_board("host"), None, BuildOptions())
    with session:
        return built, session.models()[0]


def test_a_device_with_another_model_is_no_surprise_later(built_model: tuple[Built, ModelInfo]) -> None:
    built, info = built_model
    assert as_built(info, built, next(iter(built.entries))) == info
    x, y = info.inputs[0], info.outputs[0]
    for other, says in (
        (replace(info, inputs=(replace(x, name="zebra\x1b[2J"),)), "another model than the one that was built"),
        (replace(info, outputs=()), "another model than the one that was built"),
        (replace(info, outputs=(y, replace(y, name="more"))), "another model than the one that was built"),
        (replace(info, inputs=(replace(x, shape=(1, 8, 8, 2)),)), "another size of image"),
        (replace(info, hash="\x1b[2J"), "another version of the model"),
    ):
        with pytest.raises(LinkError, match=says) as caught:
            as_built(other, built, next(iter(built.entries)))
        assert "\x1b" not in str(caught.value)
    [(name, entry)] = built.entries.items()
    sized = replace(built, entries={name: replace(entry, dims=(Var("n", 1, 4),))})
    dims = (DimInfo("n", 1, 4),)
    assert as_built(replace(info, dims=dims), sized, next(iter(built.entries))).dims == dims
    for wrong, says in (
        (DimInfo("n", 1, 5), "the device has the model with other bounds of n"),
        (DimInfo("m", 1, 4), "another model than the one that was built"),
        (None, "another model than the one that was built"),
    ):
        with pytest.raises(LinkError, match=says):
            as_built(replace(info, dims=() if wrong is None else (wrong,)), sized, next(iter(built.entries)))


def test_a_device_without_the_model(built_model: tuple[Built, ModelInfo]) -> None:
    built, _ = built_model
    with pytest.raises(UsageError, match=r"the device has no model digits_int8\b") as caught:
        prepare(SimpleNamespace(models=lambda: ()), built, None, {})
    assert caught.value.hint == "build and flash this model's firmware"


def test_a_device_with_another_profile() -> None:
    with pytest.raises(LinkError, match="the device has another profile than the one that was built") as caught:
        _ticks(SimpleNamespace(profile=lambda: ()), 4)
    assert caught.value.why == "0 operations, not 4"


def test_long_names_are_told_apart_on_the_wire(built_model: tuple[Built, ModelInfo]) -> None:
    one, other = "layer_" * 20 + "a", "layer_" * 20 + "b"
    assert wire_name("image") == "image"
    assert wire_name("n" * MAX_TEXT) == "n" * MAX_TEXT
    assert len(wire_name(one)) == len(wire_name(other)) == MAX_TEXT
    assert wire_name(one) != wire_name(other)
    built, info = built_model
    [(entry, own)] = built.entries.items()
    shapes = {one if name == "image" else other: dims for name, dims in own.shapes.items()}
    named = replace(built, entries={entry: replace(own, shapes=shapes)})
    inputs = (replace(info.inputs[0], name=wire_name(one)),)
    outputs = (replace(info.outputs[0], name=wire_name(other)),)
    found = as_built(replace(info, inputs=inputs, outputs=outputs), named, entry)
    assert [tensor.name for tensor in found.tensors] == [one, other]
