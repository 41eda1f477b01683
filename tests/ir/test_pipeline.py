"""Pipelines as text, discovery of passes, the observer."""

from __future__ import annotations

from dataclasses import fields

import pytest

from sdk.compiler.ir.module import Module
from sdk.compiler.passes.cleanup import Cleanup
from sdk.compiler.passes.fold import Fold
from sdk.compiler.passes.fold_offset import FoldOffset
from sdk.compiler.passes.fuse import Fuse
from sdk.compiler.passes.pipeline import all_passes, parse_pipeline, print_pipeline, run_pipeline
from sdk.errors import UsageError


def test_every_pass_is_found_by_its_file() -> None:
    found = all_passes()
    assert {
        "fold",
        "fold-pad",
        "fold-offset",
        "canonicalize",
        "cleanup",
        "lower",
        "fuse",
        "schedule",
    } <= found.keys()
    for kind in found.values():
        assert kind.__dataclass_params__.frozen, kind
        assert all(f.name.isidentifier() for f in fields(kind))


def test_options_are_the_fields() -> None:
    steps = parse_pipeline("fold, fold-offset{x-offset=128},fuse{ max-ops=4 },cleanup")
    assert steps == (Fold(), FoldOffset(x_offset=128), Fuse(max_ops=4), Cleanup())
    assert print_pipeline(steps) == "fold,fold-offset{x-offset=128},fuse{max-ops=4},cleanup"
    assert parse_pipeline("") == ()


@pytest.mark.parametrize("name", sorted(all_passes()))
def test_text_of_every_pass_reads_back(name: str) -> None:
    steps = parse_pipeline(name)
    assert parse_pipeline(print_pipeline(steps)) == steps


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("foldd", "unknown pass foldd", "did you mean fold?"),
        ("fold{growth=1}", "pass fold has no option growth", "did you mean max-growth?"),
        ("fold{max-growth=x}", "option max-growth of pass fold does not take 'x'", "it takes int"),
        ("fold;lower", "a pipeline cannot be read at 'fold;lower'", "write name{option=value},name"),
        ("fold{", "a pipeline cannot be read at 'fold{'", "write name{option=value},name"),
    ],
)
def test_errors(text: str, message: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_pipeline(text)
    assert (caught.value.message, caught.value.hint) == (message, hint)


def test_the_observer_sees_each_step() -> None:
    seen: list[tuple[str, Module]] = []
    module = Module("m", "typed")
    run_pipeline(module, parse_pipeline("fold,cleanup"), lambda step, after: seen.append((step.name, after)))
    assert seen == [("fold", module), ("cleanup", module)]
