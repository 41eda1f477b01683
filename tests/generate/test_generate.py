"""Generated networks: the same everywhere, small, holding every operator, and equal to the reference engines."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from generate import KINDS, generate, values
from generate.builders import TENSOR_BYTES, WEIGHT_BYTES, WIDTH, tables
from generate.engines import differences, imported, on_interpreter, on_reference
from generate.tflite_recurrent import RECURRENT
from generate.tflite_states import STATEFUL
from sdk.frontends.onnx.operators import OPERATORS as ONNX
from sdk.frontends.tflite.operators import OPERATORS as TFLITE

# What the frontends know and no network holds.
NOT_GENERATED = {
    "WHERE": "as large as the numbers say: nothing of a fixed shape can follow",
    "Scatter": "replaced by ScatterElements in opset 11; the networks are of opset 21 and later",
    "Upsample": "replaced by Resize in opset 10",
    **dict.fromkeys(
        ("DFT", "DeformConv", "GridSample", "MaxRoiPool", "MelWeightMatrix", "RoiAlign", "STFT"), "has tests of its own"
    ),
    **dict.fromkeys(
        ("ConcatFromSequence", "SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert",
         "SequenceLength", "SplitToSequence"), "values of the networks are tensors; has tests of its own",
    ),
    **dict.fromkeys(
        ("BIDIRECTIONAL_SEQUENCE_LSTM", "BIDIRECTIONAL_SEQUENCE_RNN", "UNIDIRECTIONAL_SEQUENCE_RNN"),
        "layers of floats that remember; has tests of its own",
    ),
    **dict.fromkeys(
        ("ATAN2", "BITCAST", "CONV_3D_TRANSPOSE", "DILATE", "EMBEDDING_LOOKUP_SPARSE", "FAKE_QUANT", "HASHTABLE_LOOKUP",
         "REDUCE_WINDOW", "SPARSE_TO_DENSE", "STABLEHLO_ADD", "STABLEHLO_AND", "STABLEHLO_GATHER", "STABLEHLO_MAXIMUM",
         "STABLEHLO_MINIMUM", "STABLEHLO_MULTIPLY", "STABLEHLO_PAD", "STABLEHLO_REDUCE_WINDOW", "STABLEHLO_SCATTER",
         "STABLEHLO_SHIFT_LEFT"), "rare in files; has tests of its own",
    ),
    **dict.fromkeys(
        ("CALL", "IF", "STABLEHLO_CASE", "STABLEHLO_COMPOSITE", "WHILE"),
        "files have one subgraph; has tests of its own",
    ),
    **dict.fromkeys(("COMPLEX_ABS", "IMAG", "REAL", "RFFT2D"), "no layer takes complex numbers; has tests of its own"),
    **dict.fromkeys(
        ("BUCKETIZE", "DENSIFY", "DYNAMIC_UPDATE_SLICE", "MATRIX_DIAG", "MATRIX_SET_DIAG", "NON_MAX_SUPPRESSION_V4",
         "NON_MAX_SUPPRESSION_V5", "SEGMENT_SUM", "TfIdfVectorizer", "UNIQUE", "UNSORTED_SEGMENT_MAX",
         "UNSORTED_SEGMENT_MIN", "UNSORTED_SEGMENT_PROD", "UNSORTED_SEGMENT_SUM"), "has tests of its own",
    ),
    **dict.fromkeys(
        ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"),
        "no two engines draw the same numbers",
    ),
    "SimplifiedLayerNormalization": "ONNX has no schema that tells its result",
}
# The last letters of hashes: what a seed means must not change unseen, because reports name seeds.
KNOWN = {
    "int8": "6e74a3cd092d", "int16": "fabd61a28af6", "uint8": "fa1b80c35e29",
    "float": "7943bcd3c8e5",
    "onnx-float": "dc7841a4e6fc", "onnx-qdq": "a4bb7ef73695", "onnx-integer": "2bce8b5b4aaa",
}  # fmt: skip


def digest(kind: str) -> str:
    whole = hashlib.sha256()
    for seed in range(5):
        network = generate(seed, kind)
        # the bytes of an .onnx file also depend on the release of its package
        whole.update(network.data() if network.suffix == ".tflite" else network.text().encode())
    return whole.hexdigest()[-12:]


@pytest.mark.parametrize("kind", KINDS)
def test_a_seed_means_the_same_everywhere(kind: str) -> None:
    assert digest(kind) == KNOWN[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_networks_are_small(kind: str) -> None:
    for seed in range(20):
        network = generate(seed, kind)
        specs = network.specs()
        assert 1 <= len(network.layers) <= 8
        assert all(s.elements * WIDTH[s.dtype] <= TENSOR_BYTES for s in specs.values())
        assert len(network.data()) < WEIGHT_BYTES + 16384
        assert network.steps == 1 or any(one.op in (*STATEFUL, *RECURRENT) for one in network.layers)
        assert len(network.text().splitlines()) == 2 + len(network.inputs) + len(network.layers)


def test_every_operator_of_the_frontends_is_generated(capsys: pytest.CaptureFixture[str]) -> None:
    found: Counter[str] = Counter()
    for kind in KINDS:
        for seed in range(len(tables(kind)) + 30):
            found.update(set(generate(seed, kind).operators()))
    with capsys.disabled():
        print("\nrarest:", ", ".join(f"{op} {count}" for op, count in found.most_common()[-12:]))
    own = {op for op in ONNX if "::" not in op}  # of others' operators no schema tells the results
    assert sorted({*TFLITE, *own} - set(found)) == sorted(NOT_GENERATED)


@pytest.mark.parametrize("kind", KINDS)
def test_networks_equal_the_reference(kind: str) -> None:
    """Ours is the interpreter of what is imported, before any pass: a difference is one of the frontend."""
    alive = 0
    for seed in range(1000, 1030):
        network = generate(seed, kind)
        module = imported(network)
        seen = set()
        for case in range(4):
            steps = [values(network, case, step) for step in range(network.steps)]
            want = on_reference(network, steps)
            assert differences(network, want, on_interpreter(network, steps, module)) == [], network.text()
            seen.add(b"".join(a.tobytes() for step in want for a in step))
        alive += len(seen) > 1
    assert alive >= 24, "nearly all networks must depend on their inputs"


def test_the_command_writes_a_file(tmp_path: Path, root: Path) -> None:
    path = tmp_path / "model.tflite"
    command = [sys.executable, "-m", "tests.generate", "--seed", "7", "--kind", "int8", "--out", str(path)]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    network = generate(7, "int8")
    assert done.stdout.strip() == network.text()
    assert path.read_bytes() == network.data()
