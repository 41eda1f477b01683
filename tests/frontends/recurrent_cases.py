"""Models of one recurrent operator on real numbers, which remember from run to run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from real_cases import Case, Const, Held, Kept, stored, weights

__all__ = ["AS_C", "RECURRENT"]


def svdf(batch: int, inputs: int, units: int, rank: int, steps: int, bias: bool = True, act: int = 0) -> Case:
    filters = units * rank
    given = (Held((batch, inputs)), weights(filters, inputs), weights(filters, steps), weights(units) if bias else None,
             Kept((batch, filters * steps)))  # fmt: skip
    return Case("SVDF", given, options="SVDFOptions", fields={"Rank": rank, "FusedActivationFunction": act})


def hybrid_svdf(case: Case, asymmetric: bool = False) -> Case:
    """The same with weights of 8 bits."""
    x, feature, time, bias, kept = case.inputs
    smaller = (stored(np.shape(w.data), 0, False) for w in (feature, time) if isinstance(w, Const))
    inputs = (x, *smaller, bias, kept)
    return replace(case, inputs=inputs, fields={**case.fields, "AsymmetricQuantizeInputs": asymmetric})


def matrix(rows: int, columns: int, eight: bool) -> Const:
    return stored((rows, columns), 0, False) if eight else weights(rows, columns)


def vector(size: int, eight: bool = False) -> Const:
    return stored((size,), 0, False) if eight else weights(size)


def lstm_way(
    inputs: int, units: int, outputs: int, peephole: bool, coupled: bool, project: bool, eight: bool
) -> list[Const | None]:
    """Inputs 1 to 17 of a layer in one direction."""
    first: list[Const | None] = [None] if coupled else []
    gates = 4 - len(first)
    source = [*first, *(matrix(units, inputs, eight) for _ in range(gates))]
    state = [*first, *(matrix(units, outputs, eight) for _ in range(gates))]
    seen = [*first, *(vector(units, eight) for _ in range(gates - 1))] if peephole else [None] * 3
    bias = [*first, *(vector(units) for _ in range(gates))]
    last = [matrix(outputs, units, eight), vector(outputs)] if project else [None] * 2
    return [*source, *state, *seen, *bias, *last]


def sequence(batch: int, steps: int, features: int, major: bool) -> Held:
    return Held((steps, batch, features) if major else (batch, steps, features))


def lstm(
    batch: int, steps: int, inputs: int, units: int, *, outputs: int = 0, peephole: bool = False, coupled: bool = False,
    norm: bool = False, eight: bool = False, major: bool = False, act: int = 4, clips: tuple[float, float] = (0.0, 0.0),
    asymmetric: bool = False, op: str = "UNIDIRECTIONAL_SEQUENCE_LSTM",
) -> Case:  # fmt: skip
    """A layer; ``outputs`` makes a projection, ``eight`` weights of 8 bits."""
    single, size = op == "LSTM", outputs or units
    way = lstm_way(inputs, units, size, peephole, coupled, bool(outputs), eight)
    scaled = [None if coupled and k == 0 else vector(units) for k in range(4)] if norm else [None] * 4
    x = Held((batch, inputs)) if single else sequence(batch, steps, inputs, major)
    given = (x, *way, Kept((batch, size)), Kept((batch, units)), *scaled)
    fields = {"FusedActivationFunction": act, "CellClip": clips[0], "ProjClip": clips[1],
              "AsymmetricQuantizeInputs": asymmetric}  # fmt: skip
    if not single:
        fields["TimeMajor"] = major
    return Case(op, given, options="LSTMOptions" if single else "UnidirectionalSequenceLSTMOptions", fields=fields)


def lstm_both(
    batch: int, steps: int, inputs: int, units: int, *, peephole: bool = False, coupled: bool = False,
    merge: bool = False, major: bool = False, project: int = 0, aux: bool = False, eight: bool = False,
) -> Case:  # fmt: skip
    out = project or units  # LiteRT wants as many units in both directions
    ways = [lstm_way(inputs, units, out, peephole, coupled, bool(project), eight) for _ in range(2)]
    kept = [Kept((batch, n)) for n in (out, units, out, units)]
    x = sequence(batch, steps, inputs, major)
    more = [x, *(None if coupled and k == 0 else matrix(units, inputs, eight) for _ in range(2) for k in range(4))]
    given = (x, *ways[0], *ways[1], *kept, *(more if aux else [None] * 9))
    fields = {"FusedActivationFunction": 4, "CellClip": 0.0, "ProjClip": 0.0, "MergeOutputs": merge, "TimeMajor": major,
              "AsymmetricQuantizeInputs": False}  # fmt: skip
    outputs = ("float32",) * (1 if merge else 2)
    return Case("BIDIRECTIONAL_SEQUENCE_LSTM", given, outputs, "BidirectionalSequenceLSTMOptions", fields, minimum=48)


def rnn(
    op: str, batch: int, steps: int, inputs: int, units: int, *, act: int = 4, major: bool = False, eight: bool = False,
    asymmetric: bool = False,
) -> Case:  # fmt: skip
    single = op == "RNN"
    x = Held((batch, inputs)) if single else sequence(batch, steps, inputs, major)
    given = (x, matrix(units, inputs, eight), matrix(units, units, eight), vector(units), Kept((batch, units)))
    fields: dict[str, int] = {"FusedActivationFunction": act, "AsymmetricQuantizeInputs": asymmetric}
    if not single:
        fields["TimeMajor"] = major
    return Case(op, given, options="RNNOptions" if single else "SequenceRNNOptions", fields=fields)


def rnn_both(
    batch: int, steps: int, inputs: int, units: tuple[int, int], *, merge: bool = False, major: bool = False,
    aux: bool = False, eight: bool = False,
) -> Case:  # fmt: skip
    x = sequence(batch, steps, inputs, major)
    ways = [[matrix(n, inputs, eight), matrix(n, n, eight), vector(n), Kept((batch, n))] for n in units]
    more = [x, *(matrix(n, inputs, eight) for n in units)] if aux else []
    fields = {"FusedActivationFunction": 4, "MergeOutputs": merge, "TimeMajor": major,
              "AsymmetricQuantizeInputs": False}  # fmt: skip
    outputs = ("float32",) * (1 if merge else 2)
    given = (x, *ways[0], *ways[1], *more)
    return Case("BIDIRECTIONAL_SEQUENCE_RNN", given, outputs, "BidirectionalSequenceRNNOptions", fields, minimum=12)


RECURRENT = {
    "SVDF": svdf(2, 5, 4, 1, 3),
    "SVDF ranks": svdf(2, 5, 4, 3, 2, act=1),
    "SVDF of one step": svdf(1, 5, 4, 2, 1, bias=False, act=4),
    "SVDF relu6": svdf(3, 2, 3, 1, 2, act=3),
    "hybrid SVDF": hybrid_svdf(svdf(2, 5, 4, 2, 3)),
    "hybrid SVDF asymmetric": hybrid_svdf(svdf(3, 6, 4, 1, 2, act=1), asymmetric=True),
    "sequence LSTM": lstm(2, 3, 4, 5),
    "sequence LSTM time-major": lstm(2, 4, 3, 4, major=True, clips=(0.3, 0.0)),
    "sequence LSTM peephole": lstm(1, 3, 4, 5, peephole=True),
    "sequence LSTM projected": lstm(2, 3, 4, 5, outputs=3, clips=(0.0, 0.2)),
    "sequence LSTM coupled": lstm(2, 3, 4, 5, coupled=True),
    "sequence LSTM normalised": lstm(2, 3, 4, 5, norm=True),
    "sequence LSTM all": lstm(2, 3, 4, 5, outputs=6, peephole=True, norm=True, major=True, clips=(0.5, 0.4)),
    "sequence LSTM all coupled": lstm(2, 3, 4, 5, outputs=2, peephole=True, norm=True, coupled=True),
    **{f"sequence LSTM activation {k}": lstm(2, 2, 3, 4, act=k, clips=(2.0, 0.0)) for k in (1, 2, 3)},
    "hybrid sequence LSTM": lstm(2, 3, 4, 5, eight=True),
    "hybrid sequence LSTM all": lstm(2, 3, 4, 5, outputs=6, peephole=True, norm=True, eight=True, major=True),
    "hybrid sequence LSTM asymmetric": lstm(2, 3, 4, 5, outputs=3, coupled=True, eight=True, asymmetric=True),
    "LSTM": lstm(2, 1, 4, 5, op="LSTM", peephole=True),
    "LSTM projected": lstm(2, 1, 4, 5, op="LSTM", outputs=3, norm=True, coupled=True),
    "hybrid LSTM": lstm(2, 1, 4, 5, op="LSTM", eight=True, asymmetric=True),
    "two-way LSTM": lstm_both(2, 3, 4, 5),
    "two-way LSTM merged": lstm_both(1, 3, 4, 3, merge=True),  # LiteRT finds no state of a second of the batch
    "two-way LSTM peephole": lstm_both(2, 3, 4, 4, merge=True, major=True, peephole=True),
    "two-way LSTM time-major": lstm_both(2, 3, 4, 3, major=True, coupled=True),
    "two-way LSTM projected": lstm_both(2, 3, 4, 5, major=True, merge=True, project=2),
    "two-way LSTM of two inputs": lstm_both(2, 3, 4, 5, aux=True),
    "hybrid two-way LSTM": lstm_both(2, 3, 4, 5, eight=True),
    **{f"RNN {k}": rnn("RNN", 2, 1, 3, 4, act=k) for k in range(5)},
    "hybrid RNN": rnn("RNN", 2, 1, 3, 4, eight=True),
    "sequence RNN": rnn("UNIDIRECTIONAL_SEQUENCE_RNN", 2, 3, 4, 5),
    "sequence RNN time-major": rnn("UNIDIRECTIONAL_SEQUENCE_RNN", 2, 3, 4, 5, major=True, act=1),
    "hybrid sequence RNN": rnn("UNIDIRECTIONAL_SEQUENCE_RNN", 2, 3, 4, 5, eight=True),
    "hybrid sequence RNN asymmetric": rnn("UNIDIRECTIONAL_SEQUENCE_RNN", 2, 3, 4, 6, eight=True, asymmetric=True),
    "two-way RNN": rnn_both(2, 3, 4, (5, 3)),
    "two-way RNN merged": rnn_both(2, 3, 4, (5, 3), merge=True, major=True),
    "two-way RNN of two inputs": rnn_both(2, 3, 4, (5, 3), aux=True),
    "hybrid two-way RNN": rnn_both(2, 3, 4, (5, 3), eight=True),
}
# Those that are run in C each time: every part of a layer once.
AS_C = (
    "SVDF ranks", "hybrid SVDF asymmetric", "sequence LSTM all coupled", "hybrid sequence LSTM all",
    "hybrid sequence LSTM asymmetric", "two-way LSTM merged", "hybrid sequence RNN asymmetric",
)  # fmt: skip
