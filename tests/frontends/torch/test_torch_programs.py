"""Programs as a whole: ``sdk.compile``, ``.pt2`` files, names, open sizes, states, and what is refused."""

from __future__ import annotations

import re
import subprocess
import sys
import warnings
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim
from torch_harness import Call, compare, flat, imported

import sdk
from sdk import driver
from sdk.boards import load_board
from sdk.compiler.interp.graph import run_graph
from sdk.errors import BuildError, MissingToolError, UsageError
from sdk.frontends import recognise
from sdk.frontends.torch.archive import export, pack
from sdk.frontends.torch.importer import import_exported, import_torch

HOST = load_board("host")


class Counter(nn.Module):
    """Adds its input to a buffer, and counts the calls."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.full((1, 4), 0.5))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Tensor) -> Any:
        before = self.total.clone()
        self.total.add_(x.sum(0, keepdim=True))
        self.count += 1
        return {"before": before, "after": self.total * 1, "count": self.count.clone()}


def _quiet_export(*args: Any, **given: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.export.export(*args, **given)


def _file(program: Any, path: Path) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.export.save(program, path)
    return path


# --- sdk.compile -------------------------------------------------------------------------------------------------


def test_a_module_with_an_example() -> None:
    net = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.5), nn.ReLU(), nn.Linear(16, 3))
    x = torch.randn(5, 8)
    with sdk.compile(net, x[:2], dynamic_shapes=({0: Dim("batch", max=8)},)) as model:
        assert net.training  # as it was
        with torch.no_grad():
            want = net.eval()(x)
        np.testing.assert_allclose(model(input=x)["output"], want, atol=1e-5)
        np.testing.assert_allclose(model(input=x[:1].numpy())["output"], want[:1], atol=1e-5)
        with pytest.raises(UsageError, match=r"batch = 9, outside its bounds 1\.\.8"):
            model(input=torch.zeros(9, 8))


def test_an_exported_program() -> None:
    net = Counter()
    program = _quiet_export(net, (torch.ones(2, 4),))
    with sdk.compile(program) as model:
        for k in range(3):
            want = net(torch.ones(2, 4) * k)
            got = model(x=torch.ones(2, 4) * k)
            assert {name: a.tolist() for name, a in got.items()} == {name: t.tolist() for name, t in want.items()}
        model.reset()
        assert model(x=torch.zeros(2, 4))["count"] == 1


def test_what_compile_refuses() -> None:
    net = nn.Linear(3, 3)
    with pytest.raises(UsageError, match="the module Linear wants example inputs"):
        sdk.compile(net)
    with pytest.raises(UsageError, match="'host' is no example input") as caught:
        sdk.compile(net, "host")
    assert caught.value.hint == "sdk.compile(model, board='host')"
    with pytest.raises(UsageError, match="dynamic_shapes without an example"):
        sdk.compile(net, dynamic_shapes={})
    with pytest.raises(UsageError, match="a list is no model"):
        sdk.compile([], torch.zeros(1))
    with pytest.raises(BuildError, match="PyTorch cannot export Linear"):
        sdk.compile(net, torch.zeros(2, 4))
    assert pack(object()) is None


# --- files -------------------------------------------------------------------------------------------------------


def test_a_file(tmp_path: Path) -> None:
    net = nn.Sequential(OrderedDict(conv=nn.Conv2d(1, 2, 3), act=nn.ReLU()))
    program = _quiet_export(net, (torch.randn(2, 1, 6, 6),), dynamic_shapes=({0: Dim("batch", min=1, max=4)},))
    path = _file(program, tmp_path / "net.bin")
    data = path.read_bytes()
    found = recognise(data, ".bin")
    assert found is not None
    assert found.name == "torch"
    assert recognise(data[: len(data) // 2], ".pt2") is None
    report = driver.verify(path, HOST, None, driver.BuildOptions(), "auto", 3)
    assert (report.passed, report.reference) == (True, "torch")


def test_states_are_verified_step_by_step(tmp_path: Path) -> None:
    path = _file(_quiet_export(Counter(), (torch.ones(2, 4),)), tmp_path / "net.pt2")
    report = driver.verify(path, HOST, None, driver.BuildOptions(), "torch", 3)
    assert (report.passed, report.max_abs_err <= 1e-5) == (True, True)


def test_the_same_program_is_the_same_file() -> None:
    program = _quiet_export(nn.Linear(3, 3), (torch.zeros(1, 3),))
    assert pack(program) == pack(program)


def test_damaged_files(tmp_path: Path) -> None:
    data = _file(_quiet_export(nn.Linear(3, 3), (torch.zeros(1, 3),)), tmp_path / "net.pt2").read_bytes()
    with pytest.raises(BuildError, match="not a valid exported program"):
        import_torch(data[:100], "net")
    at = data.index(b'"graph_module"')
    with pytest.raises(BuildError, match="not a valid exported program"):
        import_torch(data[:at] + b"x" * 9 + data[at + 9 :], "net")


def test_without_torch() -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from sdk.frontends.torch.importer import import_torch\nimport_torch(b'', 'net')"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert "PyTorch is not installed" in found.stderr
    assert MissingToolError.__name__ in found.stderr


def test_nothing_imports_torch_before_it_is_used() -> None:
    code = "import sys, sdk, sdk.driver, sdk.frontends; sdk.frontends.frontends(); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


# --- names -------------------------------------------------------------------------------------------------------


class Nested(nn.Module):
    def forward(self, pair: Any, *, scale: Tensor, flag: bool = True, none: Any = None) -> Any:
        a, b = pair["a"], pair["b"]
        return {"sum": (a + b * scale, a), "rows": b.shape[0], "none": none}, a if flag else b


def test_names_of_inputs_and_outputs() -> None:
    example = {"pair": {"a": torch.ones(2, 3), "b": torch.ones(2, 3)}, "scale": torch.tensor(2.0), "flag": True}
    shapes = {"pair": {"a": {0: Dim("n", max=5)}, "b": {0: Dim("n", max=5)}}, "scale": None, "flag": None}
    program, names = export(Nested(), example, shapes)
    made = import_exported(program, "net", names=names)
    main = made.graphs["main"]
    assert [p.name for p in main.params] == ["pair_a", "pair_b", "scale"]
    assert [r.name for r in main.results] == ["t_0_sum_0", "t_0_sum_1", "t_0_rows", "output_1"]
    assert [str(d.name) for d in main.dims] == ["n"]
    x = np.ones((4, 3), np.float32)
    found = run_graph(made, "main", {"pair_a": x, "pair_b": x, "scale": np.float32(2)})
    want = flat(Nested()({"a": torch.ones(4, 3), "b": torch.ones(4, 3)}, scale=torch.tensor(2.0)))
    for value, expected in zip(main.results, want, strict=True):
        np.testing.assert_array_equal(found[value.name], expected)


# --- open sizes --------------------------------------------------------------------------------------------------


def test_derived_sizes() -> None:
    n = Dim("n", min=2, max=6)
    x, y, z = torch.randn(3, 2), torch.randn(6, 2), torch.randn(4, 2)
    net = Call(lambda x, y, z: (x + y[::2], y.reshape(-1, 4), z[1:] * x, torch.cat([x, y, z])))
    made, _ = imported(net, (x, y, z), (({0: n}, {0: 2 * n}, {0: n + 1}),))
    (dim,) = made.graphs["main"].dims
    assert (dim.name, dim.lo, dim.hi) == ("n", 2, 6)
    args = [torch.randn(k, 2) for k in (5, 10, 6)]
    got = run_graph(made, "main", {p.name: a.numpy() for p, a in zip(made.graphs["main"].params, args, strict=True)})
    for value, want in zip(made.graphs["main"].results, net(*args), strict=True):
        np.testing.assert_allclose(got[value.name], want, rtol=1e-6)


def test_arithmetic_on_sizes() -> None:
    def run(x: Tensor) -> Any:
        n, m = x.shape
        places = torch.arange(n) * m + n // 2
        scaled = x * (1 / m) / (2.5 * n), x * (n / 3 + torch.sym_sqrt(m))
        made = torch.full((n, 2), m), x.new_ones(n + m)
        return scaled, made, x.reshape(n * m // 2, 2), places, x / m, x[1:], x.mean(0)

    n, m = Dim("n", min=3, max=9), 2 * Dim("half", min=2, max=5)
    x = torch.randn(5, 6)
    compare(run, x, shapes=({0: n, 1: m},), more=[[torch.randn(3, 4)], [torch.randn(9, 10)], [torch.randn(4, 8)]])


def test_bounds() -> None:
    net = nn.Linear(3, 3)
    x = torch.zeros(2, 3)
    program = _quiet_export(net, (x,), dynamic_shapes=({0: Dim("batch")},))
    with pytest.raises(UsageError, match="open sizes without bounds: input_dim0") as caught:
        import_exported(program, "net")
    assert 'dims={"input_dim0": (1, 64)}' in str(caught.value.hint)
    made = import_exported(program, "net", dims={"input_dim0": (2, 8, 2)})
    assert [(d.lo, d.hi, d.multiple) for d in made.graphs["main"].dims] == [(2, 8, 2)]
    assert import_exported(program, "net", dims={"input_dim0": 3}).graphs["main"].dims == ()
    closed = _quiet_export(net, (x,), dynamic_shapes=({0: Dim("batch", min=2, max=4)},))
    with pytest.raises(UsageError, match=r"cannot lie in 1\.\.4") as caught:
        import_exported(closed, "net", dims={"input_dim0": (1, 4)})
    assert caught.value.why == "the program was exported for 2..4"
    with pytest.raises(UsageError, match="no dim m"):
        import_exported(closed, "net", dims={"m": (1, 4)})


# --- states ------------------------------------------------------------------------------------------------------


class Cache(nn.Module):
    """Writes a row at a position, and attends to all rows."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rows", torch.zeros(6, 4))

    def forward(self, x: Tensor, at: Tensor) -> Tensor:
        self.rows.index_copy_(0, at, x)
        return torch.softmax(x @ self.rows.T, -1) @ self.rows


def test_a_cache() -> None:
    net = Cache()
    with sdk.compile(Cache(), (torch.ones(1, 4), torch.tensor([0]))) as model:
        for k in (0, 1, 5):
            x, at = torch.randn(1, 4), torch.tensor([k])
            np.testing.assert_allclose(model(x=x, at=at)["output"], net(x, at), atol=1e-5)


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(50, 4), nn.Linear(4, 50, bias=False)
        self.head.weight = self.words.weight

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(torch.tanh(self.words(ids)))


def test_tied_weights_are_stored_once() -> None:
    made = compare(Tied(), torch.tensor([1, 49]))
    assert sum(c.data.size for c in made.consts.values()) == 200


# --- in place ----------------------------------------------------------------------------------------------------


def test_operators_that_write_into_their_input() -> None:
    def run(x: Tensor) -> Any:
        a = (x * 2).add_(1).relu_()
        b = x + 1
        view = b[1:]
        view.mul_(3)
        c = x * 1
        d = c.clone()
        c.sub_(d * 0.5)
        return a, b, c, d, torch.zeros(2, 3).add_(x[0, 0]).copy_(x).clamp_(0, 1)

    compare(run, torch.randn(2, 3))
    compare(nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(inplace=True)), torch.randn(1, 1, 4, 4))


# --- what is refused ---------------------------------------------------------------------------------------------


def test_all_that_is_missing_is_reported_at_once() -> None:
    def run(x: Tensor) -> Any:
        y = torch.linalg.matrix_exp(x)
        return y + torch.special.bessel_j0(x), torch.linalg.eigvals(x)

    with pytest.raises(BuildError) as caught:
        imported(Call(run), (torch.randn(3, 3),))
    where = str(caught.value.where)
    assert "matrix_exp" in where
    assert "bessel_j0" in where
    assert "linalg_eig" in where
    assert re.search(r"torch_harness\.py:\d+: return self\.function", where)


def test_inputs_that_are_written() -> None:
    with pytest.raises(BuildError, match="the program changes its inputs: "):
        imported(Call(lambda x: x.add_(1)), (torch.zeros(3),))


def test_bfloat16_is_computed_as_f32() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.line = nn.Linear(4, 3)
            self.register_buffer("table", torch.randn(5, 3))

        def forward(self, x: Tensor, at: Tensor) -> Any:
            y = self.line(x) * self.table[at].to(torch.float32)
            return y.to(torch.bfloat16), (y > 0).sum(), torch.full((2,), 1.5, dtype=torch.bfloat16) + x[0, :2]

    torch.manual_seed(5)
    net = Net().bfloat16()
    x, at = torch.randn(2, 4).bfloat16(), torch.tensor([1, 4])
    with sdk.compile(net, (x, at)) as model:
        got = model(x=x, at=at)
        want = net.float()(x.float(), at)
    for name, expected in zip(got, want, strict=True):
        assert got[name].dtype in (np.float32, np.int64)
        np.testing.assert_allclose(got[name], expected.detach().float(), atol=2e-2 if name == "output_0" else 1e-6)
    np.testing.assert_allclose(got["output_0"], (net.line(x.float()) * net.table[at]).detach(), atol=1e-5)


def test_the_bits_of_bfloat16(tmp_path: Path) -> None:
    program = _quiet_export(Call(lambda x: x.view(torch.int16)), (torch.zeros(2, dtype=torch.bfloat16),))
    with pytest.raises(BuildError, match="reads the bits of bfloat16"):
        import_torch(_file(program, tmp_path / "net.pt2").read_bytes(), "net")


def test_training_is_refused() -> None:
    program = _quiet_export(nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5)).train(), (torch.zeros(1, 2),))
    with pytest.raises(BuildError) as caught:
        import_exported(program, "net")
    assert "drops at random" in str(caught.value.where)
    assert caught.value.hint == "export module.eval()"


def test_half_floats() -> None:
    net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.LayerNorm(8), nn.Softmax(-1)).half()
    compare(net, torch.randn(2, 8).half())


def test_a_program_without_results() -> None:
    class Nothing(nn.Module):
        def forward(self, x: Tensor) -> None:
            return None

    with pytest.raises(BuildError, match="the program has no output"):
        import_exported(_quiet_export(Nothing(), (torch.zeros(2),)), "m")


def test_what_pytorch_cannot_decompose(monkeypatch: pytest.MonkeyPatch) -> None:
    program = _quiet_export(Counter(), (torch.zeros(1, 4),))

    def refuse(*_: Any) -> Any:
        raise RuntimeError("no rule\nand more")

    monkeypatch.setattr(type(program), "run_decompositions", refuse)
    with pytest.raises(BuildError, match="PyTorch cannot decompose the program") as caught:
        import_exported(program, "m")
    assert caught.value.why == "no rule"
