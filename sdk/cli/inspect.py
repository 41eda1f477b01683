"""``sdk inspect``: what models are, in short; a model's program as text at any stage, or the model as a drawn graph."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from sdk.amounts import Amount, named_macs, named_weights
from sdk.cli import complete, options, output
from sdk.errors import SdkError, UsageError

if TYPE_CHECKING:
    from sdk.driver.plots.drawing import Tensor
    from sdk.driver.summary import Summary

# what does not choose how code is made
_OWN: Final = ("models", "stage", "html", "svg", "as_json", "dims", "custom", "safetensors")
_REASON: Final = 70  # characters of a reason in the table of several models


@click.command()
@options.models_argument
@click.option(
    "--board", metavar="B", default="host", help="Board to compile for, with --stage.", show_default=True,
    shell_complete=complete.board_names,
)  # fmt: skip
@click.option(
    "--stage", metavar="NAME", help="Print the program at a stage: imported, typed, scheduled, planned or kernels.",
    shell_complete=complete.stage_names,
)  # fmt: skip
@options.build_options
@click.option("--html", metavar="F", type=options.FILE, help="Draw the model: write a page.")
@click.option("--svg", metavar="F", type=options.FILE, help="Draw the model: write a plot alone.")
@options.json_option
def inspect(
    models: tuple[options.Model, ...],
    board: str,
    stage: str | None,
    html: Path | None,
    svg: Path | None,
    as_json: bool,
    **compile_options: Any,
) -> int:
    """Print what each MODEL is: inputs, outputs, operators, multiply-accumulates, weights, what is not supported.

    With --stage print its program as text, for which the options of a build count; with --html or --svg draw it.
    One with operators that are not supported is told of too, with the reasons; the exit code then is that of a build.
    """
    from sdk import driver

    drawn = html is not None or svg is not None
    if stage is None and not drawn:
        _refuse_build_options()
    if len(models) > 1 and (drawn or stage is not None):
        raise UsageError(f"{len(models)} models", hint="give one with --stage, --html or --svg")
    chosen = options.make_options(**compile_options)
    if stage is not None:
        if drawn or as_json:
            raise UsageError("--stage is for text", hint="leave out --html, --svg and --json, or --stage")
        output.say_text(driver.inspect(options.existing(models[0]), options.find_board(board), chosen, stage))
        return 0
    if len(models) > 1:
        return _several(models, chosen, as_json)
    found = driver.summarise(options.existing(models[0]), chosen)
    for option, path, made in (("--html", html, "graph_page"), ("--svg", svg, "graph_svg")):
        if path is not None and found.drawing is not None:
            output.write_file(path, getattr(driver, made)(found.drawing), option)  # loaded where it is wanted
            output.say(f"wrote {path}", err=as_json)
    if as_json:
        output.print_json(_json(found))
    elif not drawn:
        _print(found)
    return 0 if found.error is None else output.report_error(_short(found, drawn), as_json=False)


def _refuse_build_options() -> None:
    """Raise UsageError where the command line chooses how code is made, and none is."""
    context = click.get_current_context()
    for parameter in context.command.params:
        name = parameter.name or ""
        if name not in _OWN and context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            option = parameter.opts[0]
            raise UsageError(f"{option} is for builds", hint=f"leave it out, or add --stage planned to {option}")


def _json(found: Summary) -> dict[str, Any]:
    return {**found.to_json(), "error": None if found.error is None else output.error_json(found.error)}


def _short(found: Summary, drawn: bool) -> SdkError:
    """The error of a model without the list of operators, where that was printed."""
    assert found.error is not None
    if drawn or not found.refused:
        return found.error
    short = copy.copy(found.error)
    short.where = short.why = None
    return short


# --- one model -------------------------------------------------------------------------------------------


def _print(found: Summary) -> None:
    """A model's facts, its operators by kind, and those that are refused."""
    drawing = found.drawing
    assert drawing is not None
    output.print_pairs(f"{found.model}, {drawing.format}", list(_facts(found)))
    output.say("")
    rows = [
        (k.kind, f"{k.count:,}", _macs(k.macs, k.macs_text), f"{k.weights_bytes:,}", f"{k.refused or ''}")
        for k in found.kinds
    ]
    columns = ("operator", "count", "MACs", "weights", "not supported")
    shown = 5 if found.refused else 4
    output.print_table("", columns[:shown], [row[:shown] for row in rows])
    if found.refused:
        output.say("")
        output.say("not supported")
    for refused in found.refused:
        names = ", ".join(refused.names[:3]) + (f" and {len(refused.names) - 3} more" if refused.names[3:] else "")
        output.say(f"  {refused.kind}: {refused.why}")
        output.say(f"    {names}")
        if refused.hint:
            output.say(f"    hint: {refused.hint}")


def _facts(found: Summary) -> Iterator[tuple[str, object]]:
    drawing = found.drawing
    assert drawing is not None
    for side in ("input", "output"):
        for entry, tensor in found.ends(side):
            yield (side if len(drawing.graphs) == 1 else f"{side} of {entry}"), _described(tensor)
    for graph in drawing.graphs:
        for size in graph.sizes:
            yield "dim", size
    for state in drawing.states:
        yield "state", _described(state)
    yield "operators", f"{len(found.nodes):,}"
    macs = named_macs({g.entry: Amount(g.macs) for g in drawing.graphs})
    for graph, (name, count) in zip(drawing.graphs, islice(macs, 0, None, 2), strict=True):
        yield name, _macs(count, graph.macs_text)
    yield next(named_weights(Amount(drawing.weights)))[0], f"{drawing.weights:,} B, {drawing.parameters:,} parameters"
    if drawing.states:
        yield "states", f"{drawing.state_bytes:,} B"
    yield "supported", "no" if found.error else "yes" + "".join(f", with --dim {d}=LO:HI" for d in _open(found))


def _open(found: Summary) -> list[str]:
    """The open sizes that a build needs bounds of."""
    graphs = () if found.drawing is None else found.drawing.graphs
    return list(dict.fromkeys(name for g in graphs for name, bounds in g.dims.items() if bounds is None))


def _described(tensor: Tensor) -> str:
    """``x i8[1, 49, 10, 1], scale 0.5, zero point 3``."""
    quant = "" if tensor.quant is None else f", scale {tensor.quant[0]:.6g}, zero point {tensor.quant[1]}"
    return f"{tensor.name} {tensor}{quant}"


def _macs(macs: int | None, text: str) -> str:
    """A number, at most where it follows from dims, and how it does."""
    if macs is None:
        return text or "-"
    return f"at most {macs:,}: {text}" if text else f"{macs:,}"


# --- several ---------------------------------------------------------------------------------------------


def _several(models: Sequence[options.Model], chosen: Any, as_json: bool) -> int:
    """A line, or an object, for each model; the exit code is that of the first with an error."""
    found = [_tried(model, chosen) for model in models]
    if as_json:
        output.print_json({"models": [_json(one) for one in found]})
    else:
        columns = ("model", "format", "inputs", "operators", "MACs", "weights", "supported")
        output.print_table("", columns, map(_row, found))
    bad = [one.error for one in found if one.error is not None]
    if not bad:
        return 0
    message = f"{len(bad)} of {len(models)} models cannot be compiled"
    short = copy.copy(bad[0])
    short.message, short.where, short.why = message, None, None
    short.hint = "sdk inspect MODEL tells all that is known of one"
    return output.report_error(short, as_json=False)


def _tried(model: options.Model, chosen: Any) -> Summary:
    from sdk import driver
    from sdk.driver.summary import Summary

    try:
        return driver.summarise(options.existing(model), chosen)
    except SdkError as error:
        return Summary("+".join(model) if isinstance(model, dict) else model.name, None, error)


def _row(found: Summary) -> tuple[str, ...]:
    from sdk.driver.plots.words import bytes_text, macs_words

    if found.drawing is None:
        return found.model, "-", "-", "-", "-", "-", f"no: {_cut(found.error.message if found.error else '')}"
    inputs = ", ".join(str(tensor) for _, tensor in found.ends("input"))
    macs = " + ".join(macs_words(g.macs, g.macs_text) for g in found.drawing.graphs)
    facts = (found.drawing.format, inputs, f"{len(found.nodes):,}", macs, bytes_text(found.drawing.weights))
    return found.model, *facts, _verdict(found)


def _verdict(found: Summary) -> str:
    """Yes, or the first reason and how many others there are."""
    if found.error is None:
        return "yes" + "".join(f", --dim {d}" for d in _open(found))
    reasons = [f"{r.kind}: {r.why}" for r in found.refused] or [found.error.message]
    more = f"; {len(reasons) - 1} more" if reasons[1:] else ""
    return f"no: {_cut(reasons[0])}{more}"


def _cut(text: str) -> str:
    from sdk.driver.plots.words import wrapped

    return wrapped(text, _REASON, 1)[0]
