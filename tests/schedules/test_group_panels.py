"""Products with weights in groups, scheduled: every format in the lanes of every machine, against the reference."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from c.c_harness import HOST_ISA, build

from sdk.compiler.analysis.row_calls import drop_single_trips
from sdk.compiler.interp.loops import run_loops
from sdk.compiler.ir.loops import For, Loops
from sdk.compiler.ir.packing import pack_array, unpack_array
from sdk.compiler.ir.types import F32, I8, I32, U8, TensorType
from sdk.compiler.ir.walk import rewrite, substitute_dims
from sdk.compiler.machines.lookup import MACHINES, machine_for
from sdk.compiler.machines.nest import Nest
from sdk.compiler.ops import OPS
from sdk.compiler.ops.group_formats import FORMATS, GROUP
from sdk.compiler.ops.group_products import blocks_of
from sdk.compiler.passes.lower import Lower
from sdk.compiler.passes.schedule import ScheduleLoops
from sdk.compiler.schedules.group_panels import PANEL, Activations, format_of_products, group_panels
from sdk.compiler.schedules.locate import ScheduleError
from sdk.compiler.schedules.rules import rule_for
from sdk.compiler.schedules.rules.groups import GroupPanels
from sdk.compiler.sym import Dim, Var, evaluate
from sdk.compiler.verify.loops import verify_loops
from sdk.graph import ModuleBuilder, f32, i8

BY_RULE = {r: f"{m.name}-{r.factors}" for m in MACHINES for r in m.rules if isinstance(r, GroupPanels)}
RULES = {name: rule for rule, name in BY_RULE.items()}  # each rule once
M = Var("m", 0, 21)
# what runs here of the sets of instructions that have such kernels, and a compiler for each
SETS = {"avx2": (frozenset({"avx2", "fma", "f16c"}), "zig")}
if HOST_ISA & {"avxvnni", "avx512vnni"}:
    SETS["avxvnni"] = (SETS["avx2"][0] | {"avxvnni"}, "gcc")
if "avx512vnni" in HOST_ISA:
    SETS["avx512vnni"] = (HOST_ISA, "zig")
*FORMER, LAST = SETS
ONE_OF_EACH = ("Q8_0", "Q4_0", "Q6_K")  # formats: of bytes, of halves of bytes, of parts in several places


def plain(name: str, m: Dim, n: int, k: int, called: str = "f") -> Loops:
    """The nest of ``dense_groups``."""
    form = FORMATS[name]
    sums = TensorType(I32 if form.zero else F32, (m, k // form.run))
    w = TensorType(U8, (n, k // form.size * form.nbytes))
    types = TensorType(I8, (m, k)), TensorType(F32, (m, k // GROUP)), sums, w
    loops = OPS["dense_groups"].loops
    assert loops is not None
    return drop_single_trips(loops(called, types, [TensorType(F32, (m, n))], {"format": name}))


def arguments(name: str, m: int, n: int, k: int) -> list[np.ndarray]:
    """Quantised activations, a group of zeros and a row with an infinity among them, and blocks."""
    form, rng = FORMATS[name], np.random.default_rng(k + m)
    x = rng.standard_normal((m, k)).astype(np.float32)
    if m > 1:
        x[0, :GROUP], x[1, 3] = 0, np.inf
    made = OPS["quantize_groups"].reference(x, run=form.run, zero=form.zero)
    return [*made, blocks_of(name, n, k)(rng)]


def scheduled(loops: Loops, rule: GroupPanels, given: Activations = "quantised") -> Loops:
    return group_panels(loops, rule.lanes, rule.factors, rule.sums, rule.tokens, given)


def anything(args: list[np.ndarray]) -> list[np.ndarray]:
    """The arguments with activations of -128 among others, and scales and sums that are not theirs."""
    x, scale, sums, w = args
    rng = np.random.default_rng(len(x))
    x = rng.choice(np.array([-128, -127, 0, 127], np.int8), x.shape)
    scale = np.abs(rng.standard_normal(scale.shape)).astype(np.float32)
    return [x, scale, (100 * rng.standard_normal(sums.shape)).astype(sums.dtype), w]


def shapes(name: str) -> Iterator[tuple[int, int]]:
    """Rows of weights that are whole panels or not, blocks that are pairs or not."""
    size = FORMATS[name].size
    yield from ((16, size), (37, 2 * size), (5, 3 * size))


def check(found: np.ndarray, args: list[np.ndarray], name: str) -> None:
    wanted = OPS["dense_groups"].reference(*args, format=name)
    whole = np.abs(wanted[np.isfinite(wanted)]).max(initial=1)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6 * whole, err_msg=name)


def findings(loops: Loops) -> list[str]:
    found: list[str] = []
    verify_loops(loops, lambda _, text: found.append(text))
    return found


@pytest.mark.some(27)
@pytest.mark.parametrize("core", RULES)
@pytest.mark.parametrize("name", FORMATS)
def test_lanes_compute_the_reference(name: str, core: str) -> None:
    """What runs as C (see below) in one case, the others in those of some formats."""
    as_c = core.split("-")[0] in SETS
    computed(name, core, lambda n, m: n == 16 and name == "Q4_1" if as_c else m is M.expr or name in ONE_OF_EACH)


@pytest.mark.slow
@pytest.mark.parametrize("core", RULES)
@pytest.mark.parametrize("name", FORMATS)
def test_lanes_compute_the_reference_of_all_shapes(name: str, core: str) -> None:
    computed(name, core, lambda n, m: True)


def computed(name: str, core: str, wanted: Callable[[int, Dim], bool]) -> None:
    rule = RULES[core]
    if rule.factors == "signs" and not FORMATS[name].signed:
        with pytest.raises(ScheduleError, match="no signed weights by quantised activations"):
            scheduled(plain(name, 1, 16, FORMATS[name].size), rule)
        return
    for (n, k), m in zip(shapes(name), (1, M.expr, 7), strict=True):
        made = scheduled(plain(name, m, n, k), rule)
        assert findings(made) == []
        if not wanted(n, m):
            continue
        for rows in (5,) if m is M.expr else (m,):
            args = arguments(name, int(rows), n, k)
            out = np.full((int(rows), n), 85, np.float32)
            stored = pack_array(args[3], made.layouts["w"])
            arrays = dict(zip(("x", "scale", "sums", "w", "o"), [*args[:3], stored, out], strict=True))
            for part in ((0, 1), (1, -(-n // PANEL))):
                run_loops(made, arrays, {"m": int(rows)}, part)
            check(out, args, name)


@pytest.mark.parametrize("core", [core for core, rule in RULES.items() if rule.factors != "signs"])
def test_lanes_take_any_activations(core: str) -> None:
    """Those of -128, and sums of others, where nothing tells that ``quantize_groups`` makes them."""
    made = scheduled(plain("Q8_0", 3, 16, 64), RULES[core], "any")
    assert findings(made) == []
    args = anything(arguments("Q8_0", 3, 16, 64))
    out = np.zeros((3, 16), np.float32)
    stored = pack_array(args[3], made.layouts["w"])
    run_loops(made, dict(zip(("x", "scale", "sums", "w", "o"), [*args[:3], stored, out], strict=True)), {}, (0, 1))
    check(out, args, "Q8_0")


def test_layouts_lose_nothing() -> None:
    for name in FORMATS:
        for n, k in shapes(name):
            made = scheduled(plain(name, 1, n, k), RULES["simd128-halves"])
            w, layout = arguments(name, 1, n, k)[3], made.layouts["w"]
            np.testing.assert_array_equal(unpack_array(pack_array(w, layout), layout, TensorType(U8, w.shape)), w)


@pytest.mark.some(2)
@pytest.mark.parametrize("core", SETS)
def test_kernels_as_c(core: str, tmp_path: Path) -> None:
    """All formats and any number of rows, of whole panels or not."""
    isa, toolchain = SETS[core]
    machine = machine_for(isa)
    assert machine.name == core
    cases: list[tuple[str, Dim, int, int]] = []
    for name in FORMATS:
        (n, k), (odd, pairs), _ = shapes(name)
        many = core == "avx512vnni" or name in ("Q8_0", "Q4_0")
        cases += [(name, M.expr if many else 1, odd, pairs), *([(name, 1, n, k)] if many else [])]
    functions = []
    for at, (name, m, n, k) in enumerate(cases):
        rule, made = rule_for(Nest(plain(name, m, n, k, f"g{at}"), quantised=True), machine)
        assert isinstance(rule, GroupPanels)
        assert (rule.factors == "signs") == (core == "avx2" and FORMATS[name].signed)
        functions.append(made)
    kernels = build(functions, tmp_path, isa, toolchain)
    for made, (name, m, n, k) in zip(functions, cases, strict=True):
        for rows in (0, 1, 2, 7, 21) if m is M.expr else (1,):
            args = arguments(name, rows, n, k)
            out = np.full((rows, n), 85, np.float32)
            stored = pack_array(args[3], made.layouts["w"])
            for part in ((0, 1), (1, -(-n // PANEL))):
                kernels.call(made.name, [*args[:3], stored, out], [rows] if m is M.expr else [], part)
            check(out, args, name)


@pytest.mark.some(2)
@pytest.mark.parametrize(
    ("core", "names"),
    [
        (LAST, FORMATS),
        *((core, ONE_OF_EACH) for core in FORMER),
        *(pytest.param(core, FORMATS, marks=pytest.mark.slow) for core in FORMER),
    ],
    ids=lambda value: value if isinstance(value, str) else str(len(value)),
)
def test_any_activations(core: str, names: Iterable[str], tmp_path: Path) -> None:
    """The same as C."""
    isa, toolchain = SETS[core]
    functions = {}
    for name in names:
        n, k = 21, 2 * FORMATS[name].size
        made = rule_for(Nest(plain(name, M.expr, n, k, f"a{name}".lower())), machine_for(isa))[1]
        functions[name] = (made, n, k)
    kernels = build([made for made, *_ in functions.values()], tmp_path, isa, toolchain)
    for name, (made, n, k) in functions.items():
        args = anything(arguments(name, 6, n, k))
        out = np.zeros((6, n), np.float32)
        kernels.call(made.name, [*args[:3], pack_array(args[3], made.layouts["w"]), out], [6], (0, 2))
        check(out, args, name)


def test_activations_are_known_by_what_makes_them() -> None:
    """By all three results of one ``quantize_groups`` for the format, at every call."""
    rng = np.random.default_rng(1)

    def quantised(form: str, given: str) -> bool:
        """Whether the schedule takes them so."""
        g = ModuleBuilder("m")
        e = g.entry("main")
        m = g.dim("m", 1, 21)
        x = e.input("x", f32, (m, 64))
        w = g.const("w", blocks_of(form, 16, 64)(rng))
        own = FORMATS[form]
        first = e.op("quantize_groups", x, run=own.run, zero=own.zero, half=given == "half")
        second = e.op("quantize_groups", e.call("neg", x), run=own.run, zero=own.zero)
        other = e.op("quantize_groups", x, run=own.run, zero=own.zero - 1)
        args = {
            "one": first, "half": first, "mixed": (first[0], first[1], second[2]), "zero": other,
            "input": (e.input("q", i8, (m, 64)), first[1], first[2]),
        }[given]  # fmt: skip
        e.output("y", e.call("dense_groups", *args, w, format=form))
        loops = ScheduleLoops("avx2+fma+f16c").run(Lower().run(g.module())).loops
        (trace,) = (f.trace for f in loops.values() if "panels" in f.trace)
        return trace.endswith("quantised)")

    for form in ("Q8_0", "Q4_0"):
        assert all(quantised(form, given) for given in ("one", "half"))
        assert not any(quantised(form, given) for given in ("mixed", "zero", "input"))


def renamed(loops: Loops) -> Loops:
    """The nest with other names of loops, as passes may give it."""

    def one(node: Any) -> Any:
        if not isinstance(node, For):
            return node
        var = Var(f"{node.var.name}_", node.var.lo, node.var.hi)
        return For(var, node.lo, node.hi, substitute_dims(node.body, {node.var: var.expr}))

    return replace(loops, body=rewrite(loops.body, one))


def test_the_nest_is_known_by_its_form() -> None:
    for name in FORMATS:
        loops = plain(name, M.expr, 5, 512)
        assert format_of_products(loops) is FORMATS[name]
        assert format_of_products(renamed(loops)) is FORMATS[name]
        assert format_of_products(scheduled(loops, RULES["simd128-halves"])) is None
    other = plain("Q4_0", 3, 5, 64)
    first = other.body.body[0]
    assert isinstance(first, For)
    assert format_of_products(replace(other, body=first.body)) is None
    with pytest.raises(ScheduleError, match="no product with weights in groups"):
        group_panels(replace(other, body=first.body), 8, "halves", 4, (1,))
    for wrong in ((3, "halves", 4, (1,)), (8, "halves", 4, (2,)), (8, "halves", 0, (1,))):
        with pytest.raises(ScheduleError, match="no panels of 16 rows"):
            group_panels(other, *wrong)  # type: ignore[arg-type]


def test_only_constants_are_stored_in_panels() -> None:
    machine = machine_for(HOST_ISA)
    nest = Nest(plain("Q4_0", 1, 16, 64), packable=frozenset())
    assert not isinstance(rule_for(nest, machine)[0], GroupPanels)
    made = rule_for(Nest(plain("Q4_0", 1, 32, 64)), machine)[1]
    assert made.rows is not None
    assert evaluate(made.rows.extent, {}) == 2
