"""A session with a device: its models, their tensors, timed runs. The API that the rest of the tool uses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import NoReturn

from sdk.devices import transports  # noqa: F401 - importing it registers the schemes
from sdk.devices.base import AgentMaker, EmulatorSpec, RatedTransport, open_transport
from sdk.devices.link import DEADLINE_S, HOST_MAX_FRAME, Link, RemoteError, SmallerFramesError
from sdk.devices.machine import MachineFacts
from sdk.devices.messages import (
    GPU_STATUSES,
    MAX_DIMS,
    MAX_TENSORS,
    STATUS_NAMES,
    Counter,
    DeviceInfo,
    DeviceStats,
    HelloAck,
    ModelInfo,
    OpTicks,
    RunStats,
    at_most,
    fixed_part,
    pack,
    parse_dim,
    parse_info,
    parse_profile,
    parse_tensor,
    take_text,
)
from sdk.devices.process import ProcessTransport
from sdk.devices.rates import change_rate
from sdk.devices.remote import RemoteProgram
from sdk.devices.wire import MIN_FRAME, OVERHEAD, Code, Op
from sdk.errors import DeviceFault, LinkError, UsageError

_WRITE_HEAD = 12  # fixed part of TENSOR_WRITE
_RUN_HEAD = 16  # fixed part of the answer to RUN; 8 bytes per sample follow
_PROFILE_HEAD = 4  # fixed part of the answer to PROFILE; 12 bytes per operation follow
_MAX_COUNT = 0xFFFFFFFF
_FACTS_S = 5.0


class Session:
    """An open session with the agent behind ``link``; a context manager that closes it.

    Every method raises LinkError when the device stays silent, answers nonsense or is not done by the link's deadline,
    DeviceFault when it crashed or a model failed, UsageError when an argument does not fit the model.
    """

    def __init__(self, link: Link) -> None:
        self._link = link
        self._ack: HelloAck = link.greet()
        self._models: tuple[ModelInfo, ...] | None = None
        transport = link.transport
        if isinstance(transport, RatedTransport) and transport.wanted:
            change_rate(link, transport, self._ack, transport.wanted)
        _, name = parse_info(self._ask(Op.INFO))
        counter: Counter = "instructions" if transport.ns_per_instruction is not None else self._ack.counter
        self.info = DeviceInfo(
            name=name,
            build_id=self._ack.build_id,
            counter=counter,
            timer_hz=self._ack.timer_hz,
            emulated=transport.emulated,
            rx_max=min(self._ack.rx_max, HOST_MAX_FRAME),
            tx_max=min(self._ack.tx_max, HOST_MAX_FRAME),
            last_crash=self._ack.crash,
        )

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the session and whatever was started for it."""
        self._link.close()

    def machine(self) -> MachineFacts | None:
        """What the machine is and does now that an agent runs the device on; None of other devices, of emulated ones,
        and where the agent does not tell."""
        transport = self._link.transport
        if isinstance(transport, RemoteProgram) and not transport.emulated:
            return transport.facts(_FACTS_S)
        return None

    def notes(self, mark: str) -> tuple[str, ...]:
        """What an agent that is a process of this machine has said in lines that begin with ``mark``, without that;
        none of other devices."""
        transport = self._link.transport
        if not isinstance(transport, ProcessTransport):
            return ()
        return tuple(line.removeprefix(mark) for line in transport.said().splitlines() if line.startswith(mark))

    def stats(self) -> DeviceStats:
        """Return the device's counts since boot, its deepest use of the stack among them."""
        return parse_info(self._ask(Op.INFO))[0]

    def ping(self, data: bytes = b"") -> bytes:
        """Return ``data`` as the device echoes it; at most one frame's payload."""
        maximum = min(self.info.rx_max, self.info.tx_max) - OVERHEAD
        if len(data) > maximum:
            raise UsageError(f"{len(data)} bytes are too many for a ping", why=f"a frame holds {maximum}")
        return self._ask(Op.PING, data, answer=len(data))

    def models(self) -> tuple[ModelInfo, ...]:
        """Return what the device says of its models; a model's number is its index. Asked once."""
        if self._models is None:
            with self._link.call():
                self._models = tuple(self._describe(model) for model in range(self._ack.model_count))
        return self._models

    def write(self, model: int, tensor: int, data: bytes) -> None:
        """Write an input from its first byte; ``data`` may be shorter than the input at its largest dims.

        A run may reuse an input's storage: write every input before each run.
        """
        info = self._model(model)
        if not 0 <= tensor < len(info.inputs):
            raise UsageError(
                f"model {info.name} has no input number {tensor}", why=f"it has {len(info.inputs)}"
            )
        if len(data) > info.inputs[tensor].nbytes:
            raise UsageError(
                f"{len(data)} bytes are too many for input {info.inputs[tensor].name!r} of {info.name}",
                why=f"it holds {info.inputs[tensor].nbytes}",
            )
        done = 0
        with self._link.call(len(data)):
            while done < len(data):
                done += self._write_part(model, tensor, done, data)

    def read(self, model: int, tensor: int, nbytes: int | None = None) -> bytes:
        """Return the first ``nbytes`` of a tensor, by default all; inputs count first, then outputs."""
        info = self._model(model)
        if not 0 <= tensor < len(info.tensors):
            raise UsageError(
                f"model {info.name} has no tensor number {tensor}", why=f"it has {len(info.tensors)}"
            )
        size = info.tensors[tensor].nbytes if nbytes is None else nbytes
        if not 0 <= size <= info.tensors[tensor].nbytes:
            raise UsageError(
                f"cannot read {size} bytes of {info.tensors[tensor].name!r} of {info.name}",
                why=f"it holds {info.tensors[tensor].nbytes}",
            )
        out = bytearray()
        with self._link.call(size):
            while len(out) < size:
                out += self._read_part(model, tensor, len(out), size)
        return bytes(out)

    def run(self, model: int, *, dims: Sequence[int] = (), repeat: int = 1, warmup: int = 0) -> RunStats:
        """Run a model ``warmup`` times, then ``repeat`` times on the clock.

        ``dims`` are the values of the model's dims in order. The samples are in the unit of ``info.counter``.
        """
        info = self._model(model)
        self._check_dims(info, dims)
        if repeat < 1 or not 0 <= warmup <= _MAX_COUNT:
            raise UsageError(
                f"cannot run {repeat} times after {warmup}",
                why="repeat >= 1 and warmup >= 0 are needed",
                hint="repeat=10",
            )
        values = b"".join(dim.to_bytes(4, "little", signed=True) for dim in dims)
        samples: list[float] = []
        while len(samples) < repeat:
            # a few at a time: an answer that arrives on a bad line, and a deadline that is no matter of the repeats
            capacity = (min(self._link.room, MIN_FRAME) - OVERHEAD - _RUN_HEAD) // 8
            count = min(capacity, repeat - len(samples))
            head = (model, count, 0 if samples else warmup, len(dims), 0)
            answer = self._ask(Op.RUN, pack("HIIHH", *head, data=values), answer=_RUN_HEAD + 8 * count)
            samples += self._samples(answer, count)
        return RunStats(tuple(samples), self.info.counter)

    def profile(self) -> tuple[OpTicks, ...]:
        """Return what each operation took in the last run; none where the agent was not built to profile."""
        found: list[OpTicks] = []
        with self._link.call():
            while True:
                total, part = self._profile_part(len(found))
                found += part
                if len(found) == total:
                    return tuple(replace(op, ticks=op.ticks * self._tick) for op in found)
                if not part or len(found) > total:
                    raise LinkError("the device leaves out operations or adds some", why=f"{len(found)} of {total}")

    @property
    def _tick(self) -> float:
        """What one tick of the device is in the unit of ``info.counter``."""
        step = self._link.transport.ns_per_instruction
        return 1.0 if self.info.counter == "cycles" else 1e9 / self._ack.timer_hz / (step or 1)

    def reset(self, model: int) -> None:
        """Return a model's state to what it was after start-up."""
        self._ask(Op.RESET_STATE, pack("H", self._index(model)))

    def selftest(self, model: int) -> int:
        """Run a model's golden cases; return its status, 0 when all agree. UsageError when it has none."""
        info = self._model(model)
        if not info.has_selftest:
            raise UsageError(f"model {info.name} carries no golden cases")
        (_, status), _ = fixed_part(self._ask(Op.SELFTEST, pack("H", model)), "Hi", "answer to a self-test")
        return int(status)

    def _write_part(self, model: int, tensor: int, offset: int, data: bytes) -> int:
        """Write what of ``data`` from ``offset`` on the line takes in one piece; return how much that is."""
        part = data[offset : offset + min(self.info.rx_max, self._link.room) - OVERHEAD - _WRITE_HEAD]
        payload = pack("HHHI", model, tensor, 0, offset, data=part)
        try:
            (_, end), _ = fixed_part(self._ask(Op.TENSOR_WRITE, payload, splits=True), "HI", "answer to a write")
        except SmallerFramesError:
            return 0
        if end != offset + len(part):
            raise LinkError("the device acknowledged another write", why=f"{end}, not {offset + len(part)}")
        return len(part)

    def _read_part(self, model: int, tensor: int, offset: int, size: int) -> bytes:
        """Return what of a tensor's first ``size`` bytes from ``offset`` on the line brings in one piece."""
        count = min(min(self.info.tx_max, self._link.room) - OVERHEAD, size - offset)
        try:
            payload = pack("HHHII", model, tensor, 0, offset, count)
            part = self._ask(Op.TENSOR_READ, payload, answer=count, splits=True)
        except SmallerFramesError:
            return b""
        if len(part) != count:
            raise LinkError("the device answered a read with another size", why=f"{len(part)}, not {count}")
        return part

    def _profile_part(self, first: int) -> tuple[int, list[OpTicks]]:
        """Return the number of operations, and those from ``first`` on that the line brings in one piece."""
        while True:
            maximum = (min(self.info.tx_max, self._link.room) - OVERHEAD - _PROFILE_HEAD) // 12
            try:
                answer = _PROFILE_HEAD + 12 * maximum
                return parse_profile(self._ask(Op.PROFILE, pack("HH", first, maximum), answer=answer, splits=True))
            except SmallerFramesError:
                continue

    def _samples(self, answer: bytes, count: int) -> list[float]:
        (_, said, overhead), data = fixed_part(answer, "HIQ", "answer to a run")
        if said != count or len(data) != 8 * count:
            raise LinkError("the device answered a run with other samples", why=f"{said}, not {count}")
        ticks = (int.from_bytes(data[at : at + 8], "little") for at in range(0, len(data), 8))
        return [max(0, tick - overhead) * self._tick for tick in ticks]

    def _describe(self, model: int) -> ModelInfo:
        fields, rest = fixed_part(self._ask(Op.MODEL_INFO, pack("H", model)), "HHHIIIHH", "model description")
        inputs, outputs, dims, arena, state, context, has_selftest, _ = fields
        at_most(inputs + outputs, MAX_TENSORS, "inputs and outputs of a model")
        at_most(dims, MAX_DIMS, "dims of a model")
        name, rest = take_text(rest, "model description")
        tensors = tuple(
            parse_tensor(self._ask(Op.TENSOR_INFO, pack("HH", model, index)))
            for index in range(inputs + outputs)
        )
        return ModelInfo(
            name=name,
            hash=take_text(rest, "model description")[0],
            inputs=tensors[:inputs],
            outputs=tensors[inputs:],
            dims=tuple(parse_dim(self._ask(Op.DIM_INFO, pack("HH", model, index))) for index in range(dims)),
            arena_bytes=arena,
            state_bytes=state,
            context_bytes=context,
            has_selftest=bool(has_selftest),
        )

    def _index(self, model: int) -> int:
        if not 0 <= model < self._ack.model_count:
            raise UsageError(
                f"there is no model number {model}", why=f"the device has {self._ack.model_count}"
            )
        return model

    def _model(self, model: int) -> ModelInfo:
        return self.models()[self._index(model)]

    def _check_dims(self, info: ModelInfo, dims: Sequence[int]) -> None:
        if len(dims) != len(info.dims):
            names = ", ".join(dim.name for dim in info.dims) or "none"
            raise UsageError(
                f"{len(dims)} dims for model {info.name}", why=f"it takes {len(info.dims)}: {names}"
            )
        for value, dim in zip(dims, info.dims, strict=True):
            if not dim.lo <= value <= dim.hi:
                raise UsageError(
                    f"{dim.name} = {value} is outside the bounds of model {info.name}",
                    why=f"it was built for {dim.lo} to {dim.hi}",
                    hint=f"rebuild with --dim {dim.name}=LO:HI or choose another value",
                )

    def _ask(self, op: Op, payload: bytes = b"", *, answer: int = 0, splits: bool = False) -> bytes:
        try:
            return self._link.request(op, payload, answer=answer, splits=splits)
        except RemoteError as error:
            self._refuse(op, error)

    def _refuse(self, op: Op, error: RemoteError) -> NoReturn:
        """Raise what an ERR answer means to the user."""
        where = self._link.transport.address
        if error.code == Code.STATUS:
            name = STATUS_NAMES.get(error.detail, f"status {error.detail}")
            gpu = GPU_STATUSES.get(error.detail)
            raise DeviceFault(
                f"the model returned {name} ({error.detail})",
                where=f"{op.name} on {where}",
                why=gpu and f"of a program for a GPU that means: {gpu}",
                hint=gpu and "sdk doctor lists the GPUs; SDK_GPU_DEVICE=NUMBER takes another than the first",
            ) from None
        code = Code(error.code).name if error.code in Code._value2member_map_ else str(error.code)
        raise LinkError(
            f"the device refused {op.name}",
            where=where,
            why=f"error {code}, detail {error.detail}",
            hint="rebuild and flash the firmware with this version of the tool",
        ) from None


def open_device(
    uri: str,
    *,
    artifact: Path,
    emulator: EmulatorSpec | None,
    timeout_s: float,
    deadline_s: float = DEADLINE_S,
    agent_for: AgentMaker | None = None,
    variables: Mapping[str, str] | None = None,
) -> Session:
    """Open a session with the device at ``uri``: ``local:`` runs ``artifact`` here, ``unicorn://`` and
    ``qemu://`` boot it.

    ``timeout_s`` is the longest silence allowed, so also the longest single run of a model; ``deadline_s`` the longest
    that a method of the session may take in all, beside what its bytes take on the line (``run``: for each 28 runs).
    ``agent_for`` makes the agent for a machine that has none (``ssh://``, ``adb://``); ``variables`` are more of the
    environment of an agent on this machine.
    Raises UsageError, NoDeviceError, MissingToolError, LinkError or DeviceFault; nothing that was started outlives an
    error.
    """
    transport = open_transport(uri, artifact, emulator, timeout_s, agent_for, variables)
    try:
        session = Session(Link(transport, timeout_s, deadline_s=deadline_s))
    except BaseException:
        transport.close()
        raise
    counts = emulator is not None and emulator.counts
    if emulator is not None and counts and transport.emulated and emulator.timer_hz != session.info.timer_hz:
        session.close()
        raise LinkError(
            "the firmware was built for another timer",
            why=f"it counts {session.info.timer_hz} Hz, the board {emulator.timer_hz} Hz",
            hint="rebuild the firmware for this board",
        )
    return session
