"""The audio front end's operators, each in a model of its own, against tflite-micro bit for bit, state and all."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tflite_files import ModelFile as Writer
from tflite_micro.python.tflite_micro import runtime

from sdk.boards import load_board
from sdk.compiler.interp.graph import initial_states, run_graph
from sdk.driver.options import BuildOptions
from sdk.driver.pipeline import default_passes, lower_module
from sdk.errors import BuildError
from sdk.frontends.tflite.importer import import_tflite

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "passes"))
from as_c import Library

Array = np.ndarray[Any, Any]
Tensor = tuple[tuple[int, ...], str]  # shape and type
RUNS = 6


def _model(
    name: str, flags: dict[str, Any], inputs: list[Tensor], outputs: list[Tensor], consts: list[Array] | None = None
) -> bytes:
    m = Writer()
    ins = [m.input(f"x{k}", *given) for k, given in enumerate(inputs)]
    ins += [m.tensor(f"c{k}", a.shape, str(a.dtype), data=a) for k, a in enumerate(consts or [])]
    outs = [m.output(f"y{k}", *given) for k, given in enumerate(outputs)]
    m.op("CUSTOM", ins, outs, custom=name, flags=flags)
    return m.build()


def _numbers(shape: tuple[int, ...], kind: str, rng: np.random.Generator, run: int) -> Array:
    """Of all sizes, one run small ones, one the ends of the range."""
    if kind == "float32":
        return rng.normal(0, 10.0**run, shape).astype(np.float32)
    info = np.iinfo(kind)
    if run == 0:
        return rng.choice(np.asarray([info.min, info.min + 1, 0, 1, 2, 3, info.max], kind), shape)
    sizes = rng.integers(info.min, info.max, shape, dtype=kind, endpoint=True)
    return sizes >> rng.integers(0, info.bits if run % 2 else 3, shape).astype(kind)


SUBTRACT = {
    "num_channels": 7, "smoothing": 820, "alternate_smoothing": 410, "one_minus_smoothing": 15564,
    "alternate_one_minus_smoothing": 15974, "smoothing_bits": 10, "spectral_subtraction_bits": 14,
    "min_signal_remaining": 819, "clamping": True,
}  # fmt: skip
SHARES = np.random.default_rng(0).integers(-4096, 4097, (2, 13)).astype(np.int16)
BANK = [*SHARES, *(np.asarray(v, np.int16) for v in ([3, 4, 9, 0], [0, 2, 5, 7], [2, 3, 3, 0]))]
GAINS = np.random.default_rng(1).integers(-32768, 32768, 125).astype(np.int16)
CASES: dict[str, tuple[str, dict[str, Any], list[Tensor], list[Tensor], list[Array]]] = {
    "window": ("SignalWindow", {"shift": 12}, [((2, 20), "int16")], [((2, 20), "int16")], [SHARES[0, :10]]),
    "window, no shift": ("SignalWindow", {"shift": 0}, [((4,), "int16")], [((4,), "int16")], [SHARES[1, :4]]),
    "auto scale": ("SignalFftAutoScale", {}, [((33,), "int16")], [((33,), "int16"), ((), "int32")], []),
    "auto scale of 2": ("SignalFftAutoScale", {}, [((2,), "int16")], [((2,), "int16"), ((), "int32")], []),
    "energy": ("SignalEnergy", {"start_index": 0, "end_index": 9}, [((18,), "int16")], [((9,), "uint32")], []),
    "bank": ("SignalFilterBank", {"num_channels": 3}, [((12,), "uint32")], [((3,), "uint64")], BANK),
    "root": ("SignalFilterBankSquareRoot", {}, [((300,), "uint64")], [((300,), "uint32")], [np.asarray(3, np.int32)]),
    "root, all bits": (
        "SignalFilterBankSquareRoot", {}, [((300,), "uint64")], [((300,), "uint32")], [np.asarray(0, np.int32)]),
    "subtract": ("SignalFilterBankSpectralSubtraction", SUBTRACT, [((7,), "uint32")], [((7,), "uint32")] * 2, []),
    "subtract, no clamping": (
        "SignalFilterBankSpectralSubtraction", SUBTRACT | {"clamping": False}, [((7,), "uint32")],
        [((7,), "uint32")] * 2, []),
    "gain": ("SignalPCAN", {"snr_shift": 6}, [((200,), "uint32")] * 2, [((200,), "uint32")], [GAINS]),
    "log": ("SignalFilterBankLog", {"output_scale": 1600, "input_correction_bits": 3}, [((200,), "uint32")],
            [((200,), "int16")], []),
    "log, large": ("SignalFilterBankLog", {"output_scale": 65536, "input_correction_bits": 0}, [((200,), "uint32")],
            [((200,), "int16")], []),
    "delay": ("SignalDelay", {"delay_length": 5}, [((2, 3), "int16")], [((2, 3), "int16")], []),
    "short delay": ("SignalDelay", {"delay_length": 2}, [((7,), "int16")], [((7,), "int16")], []),
    "frames": ("SignalFramer", {"frame_size": 7, "frame_step": 3, "prefill": True}, [((2, 6), "int16")],
               [((2, 2, 7), "int16"), ((), "bool")], []),
    "frames of few samples": ("SignalFramer", {"frame_size": 7, "frame_step": 3, "prefill": False}, [((1, 3), "int16")],
               [((1, 1, 7), "int16"), ((), "bool")], []),
    "frames beside": ("SignalFramer", {"frame_size": 4, "frame_step": 4, "prefill": False}, [((8,), "int16")],
               [((2, 4), "int16"), ((), "bool")], []),
    "stack": ("SignalStacker", {"num_channels": 3, "stacker_left_context": 1, "stacker_right_context": 2,
              "stacker_step": 2}, [((3,), "int16")], [((12,), "int16"), ((), "bool")], []),
    "stack, left": ("SignalStacker", {"num_channels": 2, "stacker_left_context": 2, "stacker_right_context": 0,
              "stacker_step": 3}, [((2,), "int16")], [((6,), "int16"), ((), "bool")], []),
    "overlap": ("SignalOverlapAdd", {"T": 7, "frame_step": 3}, [((2, 3, 8), "int16")], [((2, 9), "int16")], []),
    "overlap of floats": ("SignalOverlapAdd", {"T": 0, "frame_step": 2}, [((1, 2, 5), "float32")],
                          [((1, 4), "float32")], []),
    "beside each other": ("SignalOverlapAdd", {"T": 7, "frame_step": 4}, [((2, 4), "int16")], [((8,), "int16")], []),
}  # fmt: skip
BEYOND = {
    "bank of int32": (*CASES["bank"][:4], [BANK[0].astype(np.int32), *BANK[1:]]),
    "window, 5": (*CASES["window"][:2], [((3, 5), "int16")], *CASES["window"][3:]),
    "bank, beyond": (*CASES["bank"][:2], [((11,), "uint32")], *CASES["bank"][3:]),
}
for _kind, _number in (("int16", 7), ("int32", 2), ("float32", 0)):
    for _n, _given in ((4, 4), (8, 5), (16, 16), (128, 100), (256, 256)):
        _flags = {"T": _number, "fft_length": _n}
        CASES[f"spectrum {_kind} {_n}"] = "SignalRfft", _flags, [((2, _given), _kind)], [((2, _n + 2), _kind)], []
        CASES[f"inverse {_kind} {_n}"] = "SignalIrfft", _flags, [((2, _n + 2), _kind)], [((2, _n), _kind)], []


def _wanted(name: str) -> tuple[bytes, list[tuple[list[Array], list[Array]]]]:
    """The file, and for some runs the inputs and what tflite-micro makes of them."""
    operator, flags, inputs, outputs, consts = CASES[name]
    data = _model(operator, flags, inputs, outputs, consts)
    engine, rng = runtime.Interpreter.from_bytes(data, arena_size=1 << 20), np.random.default_rng(2)
    found = []
    for run in range(RUNS):
        arrays = [_numbers(shape, kind, rng, run) for shape, kind in inputs]
        for k, array in enumerate(arrays):
            engine.set_input(array, k)
        engine.invoke()
        found.append((arrays, [np.array(engine.get_output(k)) for k in range(len(outputs))]))
    return data, found


def _check(got: list[Array], want: list[Array], name: str, run: int) -> None:
    valid = want[-1].dtype != np.bool_ or bool(want[-1])  # where it is not, the rest is what memory held
    for k, (a, b) in enumerate(zip(got, want, strict=True)):
        if a.dtype == np.float32:
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5 * np.abs(b).max(), err_msg=f"{name}, run {run}")
        elif valid or k == len(want) - 1:
            np.testing.assert_array_equal(a.reshape(b.shape), b, err_msg=f"{name}, run {run}, output {k}")


@pytest.mark.parametrize("name", CASES)
def test_as_tflite_micro(name: str) -> None:
    data, runs = _wanted(name)
    module = import_tflite(data, "m")
    graph, states = module.graphs["main"], initial_states(module)
    for run, (arrays, want) in enumerate(runs):
        got = run_graph(module, "main", {p.name: a for p, a in zip(graph.params, arrays, strict=True)}, states)
        _check([np.asarray(got[r.name]) for r in graph.results], want, name, run)
    assert any(w.any() for _, outs in runs for w in outs), "all is 0: the comparison says nothing"


def test_as_c(tmp_path: Path) -> None:
    board, options = load_board("host"), BuildOptions()
    names = [n for n in CASES if not n.endswith((" 4", " 8", " 128", " 256"))]
    wanted = {f"m{k}": _wanted(n) for k, n in enumerate(names)}
    imported = {k: import_tflite(data, "m") for k, (data, _) in wanted.items()}
    modules = {k: lower_module(m, default_passes(board, options)) for k, m in imported.items()}
    library = Library(modules, tmp_path)
    for (prefix, module), name in zip(modules.items(), names, strict=True):
        params, runs = imported[prefix].graphs["main"].params, wanted[prefix][1]
        steps = [{p.name: a for p, a in zip(params, arrays, strict=True)} for arrays, _ in runs]
        for run, (got, (_, want)) in enumerate(zip(library.runs(prefix, module, steps, {}), runs, strict=True)):
            _check(list(got.values()), want, name, run)


def test_samples_that_clip() -> None:
    """The kernel's largest magnitude forgets what came before the lowest number, and rising numbers after it."""
    rng, shape = np.random.default_rng(3), (9,)
    data = _model("SignalFftAutoScale", {}, [(shape, "int16")], [(shape, "int16"), ((), "int32")])
    engine, module = runtime.Interpreter.from_bytes(data, arena_size=1 << 16), import_tflite(data, "m")
    seen = set()
    for _ in range(300):
        x = rng.choice(np.asarray([-32768, -300, -40, -5, -1, 0, 3, 50], np.int16), shape, p=[0.2, *[0.8 / 7] * 7])
        engine.set_input(x, 0)
        engine.invoke()
        got = run_graph(module, "main", {module.graphs["main"].params[0].name: x})
        for k, value in enumerate(got.values()):
            np.testing.assert_array_equal(np.asarray(value), engine.get_output(k), err_msg=str(x))
        seen.add(int(engine.get_output(1)))
    assert len(seen) > 4


def test_energies_beside_the_range_are_0() -> None:
    data = _model("SignalEnergy", {"start_index": 2, "end_index": 4}, [((12,), "int16")], [((6,), "uint32")])
    x = np.arange(1, 13, dtype=np.int16)
    (got,) = run_graph(import_tflite(data, "m"), "main", {"x0": x}).values()
    assert got.tolist() == [0, 0, 25 + 36, 49 + 64, 0, 0]


@pytest.mark.parametrize(
    ("name", "more", "why"),
    [
        ("window", {"shift": 40}, "shift is 40"),
        ("window, 5", {}, "no multiple of the window of 10"),
        ("energy", {"end_index": 10}, "end_index is 10"),
        ("energy", {"start_index": 10}, "start_index is 10"),
        ("bank, beyond", {}, "a filter takes 3 energies from 9 with weights from 5, there are 11 and 13"),
        ("bank of int32", {}, "is of int32, not of int16"),
        ("bank", {"num_channels": 4}, "4 filters need 5 starts"),
        ("subtract", {"num_channels": 6}, "6 elements in a row"),
        ("subtract", {"smoothing": None}, "smoothing is missing"),
        ("gain", {"snr_shift": 64}, "snr_shift is 64"),
        ("frames", {"frame_step": 4}, "6 samples are no multiple of the step of 4"),
        ("frames", {"frame_step": 8}, "frame_step is 8"),
        ("stack", {"stacker_step": 5}, "stacker_step is 5"),
        ("stack", {"num_channels": 1 << 20}, "more than"),
        ("overlap", {"frame_step": 9}, "frame_step is 9"),
        ("delay", {"delay_length": -1}, "delay_length is -1"),
        ("spectrum int16 8", {"fft_length": 12}, "fft_length is 12, not a power of two"),
        ("spectrum int16 8", {"T": 9}, "the type T is 9"),
        ("spectrum int16 8", {"fft_length": 4}, "no frames of 1 to 4"),
        ("inverse int16 8", {"fft_length": 16}, "have no 9 pairs"),
    ],
)
def test_options_that_are_refused(name: str, more: dict[str, Any], why: str) -> None:
    operator, flags, *rest = (CASES | BEYOND)[name]
    with pytest.raises(BuildError, match="cannot be imported") as error:
        import_tflite(_model(operator, flags | more, *rest), "m")
    assert why in str(error.value)
