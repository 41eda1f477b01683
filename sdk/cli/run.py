"""``sdk run``: a model's outputs for given inputs, from this machine, an emulated board or a device."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sdk.cli import options, output
from sdk.errors import UsageError
from sdk.files import replacing

if TYPE_CHECKING:
    import numpy as np

_SHOWN_VALUES = 64


@click.command()
@options.target_argument
@options.any_board_option
@options.device_option
@options.at_option
@options.entry_option
@click.option("--input", "inputs", multiple=True, metavar="X=FILE.npy", help="An input; repeat for each.")
@click.option("--output", "save", type=options.FILE, help="Save all outputs as .npz.")
@options.build_options
@options.json_option
def run(
    target: options.Model,
    board: str | None,
    device: str | None,
    at: tuple[str, ...],
    entry: str | None,
    inputs: tuple[str, ...],
    save: Path | None,
    as_json: bool,
    **compile_options: Any,
) -> None:
    """Run a model, or a folder that sdk build made, once."""
    from sdk import driver

    if save is not None:
        output.check_no_input(save, "--output")
    file, place, sizes = (
        options.existing(target), options.find_place(board, device, compile_options["gpu"]), options.parse_at(at),
    )  # fmt: skip
    options.resolve_gpu(compile_options, file, place, device, sizes, entry)
    result = driver.run(
        file,
        place,
        device,
        options.make_options(**compile_options),
        sizes,
        options.parse_inputs(inputs),
        entry,
    )
    if save is not None:
        _save(save, result.outputs)
    if as_json:
        summary = {name: _summary(value) for name, value in result.outputs.items()}
        output.print_json(
            {**result.to_json(), "outputs": summary, "saved": None if save is None else str(save)}
        )
        return
    for note in result.notes:
        output.say(f"note: {note}")
    for name, value in result.outputs.items():
        output.print_pairs(name, [("type", f"{value.dtype}{list(value.shape)}"), ("values", _values(value))])
    if save is not None:
        output.say(f"wrote {save}")


def _save(path: Path, outputs: Mapping[str, np.ndarray[Any, Any]]) -> None:
    import numpy as np

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            np.savez(file, allow_pickle=False, **dict(outputs))
    except OSError as error:
        raise UsageError(
            f"cannot write {path}", where="--output", why=error.strerror, hint="name a file with --output FILE.npz"
        ) from None


def _summary(value: np.ndarray[Any, Any]) -> dict[str, Any]:
    """What the JSON object says of one output; the values only of a small one."""
    values = _finite(value.tolist()) if value.size <= _SHOWN_VALUES else None
    return {"shape": list(value.shape), "dtype": str(value.dtype), "values": values}


def _finite(value: Any) -> Any:
    """Spell what JSON has no number for ("nan", "inf", "-inf") as text, at any depth of lists."""
    if isinstance(value, list):
        return [_finite(entry) for entry in value]
    return value if not isinstance(value, float) or math.isfinite(value) else str(value)


def _values(value: np.ndarray[Any, Any]) -> str:
    shown = " ".join(f"{entry:.6g}" for entry in value.reshape(-1)[:_SHOWN_VALUES].tolist())
    return (
        shown if value.size <= _SHOWN_VALUES else f"{shown} ... ({value.size:,} values, --output saves them)"
    )
