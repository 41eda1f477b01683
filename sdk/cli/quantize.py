"""``sdk quantize``: a float model and samples of its inputs become an ONNX model of integers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sdk.cli import options, output

if TYPE_CHECKING:
    from sdk.quantizer.report import LayerRow, QuantizeReport


@click.command()
@click.argument("model", type=options.FILE)
@click.option("--data", metavar="F.npz", required=True, type=options.FILE, help="Samples, by input.")
@click.option("-o", "--out", metavar="F.onnx", required=True, type=options.FILE, help="What is written.")
@click.option(
    "--to", type=click.Choice(["int8", "int16x8", "w8", "w4"]), default="int8", show_default=True,
    help="Activations by weights, or weights alone (w8, w4).",
)  # fmt: skip
@click.option("--group", default=32, show_default=True, help="Weights that share a scale, with w8 and w4.")
@click.option(
    "--range", "ranges", type=click.Choice(["minmax", "percentile", "mse"]), default="minmax", show_default=True,
    help="What limits of activations follow from.",
)  # fmt: skip
@click.option("--percentile", default=99.99, show_default=True, help="Of elements within the limits.")
@click.option("--keep", multiple=True, metavar="NAME", help="A layer that stays in floats; block1* for several.")
@click.option("--keep-above", type=float, metavar="DB", help="Layers whose error alone is above this stay in floats.")
@click.option("--sensitivity", is_flag=True, help="Measure the error of each layer alone.")
@click.option("--equalise", is_flag=True, help="Scale neighbouring layers to weights of like ranges first.")
@click.option(
    "--correct-bias/--no-correct-bias", default=True, show_default=True, help="Take mean errors off the biases."
)
@click.option("--integer-io", is_flag=True, help="Inputs and outputs become integers too.")
@click.option("--labels", metavar="NAME", help="The array of labels in the data: tells the accuracy.")
@options.dim_option
@options.json_option
def quantize(
    model: Path, data: Path, out: Path, to: Any, group: int, ranges: Any, percentile: float, keep: tuple[str, ...],
    keep_above: float | None, sensitivity: bool, equalise: bool, correct_bias: bool, integer_io: bool,
    labels: str | None, dims: tuple[str, ...], as_json: bool,
) -> None:  # fmt: skip
    """Quantise MODEL, of floats, after training: write an ONNX model of integers that any runtime runs."""
    from sdk.quantizer.options import QuantizeOptions
    from sdk.quantizer.run import quantize_path

    output.check_no_input(out, "-o")
    chosen = QuantizeOptions(
        to, ranges, percentile, group, keep, keep_above, sensitivity, equalise, correct_bias, integer_io, labels
    )
    found = quantize_path(options.existing_path(model), options.existing_path(data), chosen, options.parse_dims(dims))
    found.save(out)
    if as_json:
        output.print_json({**found.report.to_json(), "out": str(out)})
        return
    _print(found.report)
    output.say(f"wrote {out}")


def _print(report: QuantizeReport) -> None:
    title = f"{report.model} to {report.to}, {report.samples} samples"
    rows = [(row.name, row.op, _type(row), _db(row.sqnr_db)) for row in report.rows]
    if any(row.sqnr_db is not None for row in report.rows):
        output.print_table(title, ("layer", "operator", "computed on", "SQNR alone, dB"), rows, bold=report.worst)
    else:
        output.print_table(title, ("layer", "operator", "computed on"), [row[:3] for row in rows])
    before, after = report.weights
    pairs: list[tuple[str, object]] = [
        ("weights", f"{before:,} -> {after:,} bytes"), ("SQNR of outputs, dB", _db(report.sqnr_db))
    ]  # fmt: skip
    if report.accuracy is not None:
        found = report.accuracy
        told = f"{found.float_top1:.2%} -> {found.quantised_top1:.2%} of {found.samples} right"
        pairs.append(("accuracy", told))
    output.say("")
    output.print_pairs("", [*pairs, *(("note", note) for note in report.notes)])


def _type(row: LayerRow) -> str:
    return f"{row.type}, {row.why}" if row.why else row.type


def _db(value: float | None) -> str:
    return "-" if value is None else "exact" if value == float("inf") else f"{value:.1f}"
