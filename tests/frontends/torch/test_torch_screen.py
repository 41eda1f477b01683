"""Files that would run code when PyTorch reads them: here they do not, whatever they hold."""

from __future__ import annotations

import io
import json
import pickle
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

from sdk.errors import BuildError
from sdk.frontends.torch.expressions import check_expression
from sdk.frontends.torch.importer import import_torch

Change = Callable[[dict[str, bytes]], None]


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Linear(4, 4)
        self.register_buffer("wide", torch.ones(1).expand(4))
        self.constant = torch.arange(4.0)

    def forward(self, x: Tensor) -> Any:
        return {"y": self.line(x) * self.wide + self.constant, "n": x.reshape(-1, 2) / x.shape[0]}


class Evil:
    """Leaves a file behind where it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (Path.touch, (self.path,))


@pytest.fixture(scope="module")
def files() -> Iterator[dict[str, bytes]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(Net().eval(), (torch.ones(2, 4),), dynamic_shapes=({0: Dim("n", max=8)},))
        found = io.BytesIO()
        torch.export.save(program, found)
    with zipfile.ZipFile(found) as archive:
        yield {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}


def _archive(files: dict[str, bytes], how: int = zipfile.ZIP_STORED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", how) as archive:
        for name, content in files.items():
            archive.writestr(f"net/{name}", content)
    return out.getvalue()


def _edit(name: str, change: Callable[[Any], None]) -> Change:
    def apply(files: dict[str, bytes]) -> None:
        found = json.loads(files[name])
        change(found)
        files[name] = json.dumps(found).encode()

    return apply


def _model(change: Callable[[Any], None]) -> Change:
    return _edit("models/model.json", change)


def _node(key: str, value: Any) -> Change:
    return _model(lambda m: m["graph_module"]["graph"]["nodes"][0].update({key: value}))


def _sizes(text: str) -> Change:
    def change(model: Any) -> None:
        x = model["graph_module"]["graph"]["tensor_values"]["x"]
        x["sizes"][0]["as_expr"]["expr_str"] = text

    return _model(change)


def _weight(**given: Any) -> Change:
    def change(config: Any) -> None:
        next(iter(config["config"].values())).update(given)

    return _edit("data/weights/model_weights_config.json", change)


def _expanded(config: Any) -> None:
    meta = config["config"]["wide"]["tensor_meta"]
    meta["sizes"] = [{"as_int": 1 << 40}]
    meta["strides"] = [{"as_int": 0}]


def _keys(model: Any) -> None:
    entry = model["graph_module"]["module_call_graph"][0]["signature"]
    context = json.dumps([{"__enum__": True, "fqn": "this:x", "name": "y"}])
    leaf = {"type": None, "context": None, "children_spec": []}
    entry["out_spec"] = json.dumps([1, {"type": "builtins.dict", "context": context, "children_spec": [leaf]}])


REFUSED: dict[str, tuple[Change, str]] = {
    "a pickled weight": (_weight(use_pickle=True), "is an object of Python"),
    "a weight elsewhere": (_weight(path_name="custom_obj_0"), "is an object of Python"),
    "a function": (_node("target", "torch.hub.load"), r"calls torch\.hub\.load, which is no operator"),
    "a library": (_node("target", "torch.ops.load_library"), "no operator"),
    "a method": (_node("target", "torch.ops.aten.linear.default.__call__"), "no operator"),
    "inner parts": (_node("target", "torch.ops.aten.linear.__init__"), "no operator"),
    "an operator argument": (
        _model(lambda m: m["graph_module"]["graph"]["nodes"][0]["inputs"][0].update(arg={"as_operator": "torch.load"})),
        "no operator",
    ),
    "a name": (_node("name", "x = print(1)\n    y"), "stands where a name is expected"),
    "a size": (_sizes("__import__('os').system('true')"), "no arithmetic on sizes"),
    "keys of an enumeration": (_model(_keys), "members of an enumeration"),
    "a huge tensor": (_edit("data/weights/model_weights_config.json", _expanded), "asks for 1099511627776 bytes"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str, files: dict[str, bytes]) -> None:
    change, message = REFUSED[name]
    given = dict(files)
    change(given)
    with pytest.raises(BuildError, match=message):
        import_torch(_archive(given), "net")


def test_what_is_not_needed_is_not_read(files: dict[str, bytes], tmp_path: Path) -> None:
    import_torch(_archive(files), "net")
    evil = pickle.dumps(Evil(tmp_path / "ran"))
    given = {**files, **{f"data/{part}/model.pt": evil for part in ("sample_inputs", "weights", "constants")}}
    _model(lambda m: m.update(guards_code=["open('x', 'w')"]))(given)
    import_torch(_archive(given), "net")
    assert not (tmp_path / "ran").exists()
    with zipfile.ZipFile(io.BytesIO(_archive({"net": evil}))) as archive:
        pickle.loads(archive.read("net/net"))
    assert (tmp_path / "ran").exists()  # it would


def test_archives_of_other_kinds(files: dict[str, bytes]) -> None:
    with pytest.raises(BuildError, match="the archive is compressed"):
        import_torch(_archive(files, zipfile.ZIP_DEFLATED), "net")
    out = io.BytesIO(_archive(files))
    with zipfile.ZipFile(out, "a") as archive:
        archive.writestr("other/models/model.json", b"{}")
    with pytest.raises(BuildError, match="several folders, or a file twice"):
        import_torch(out.getvalue(), "net")
    with pytest.raises(BuildError, match="not a valid exported program"):
        import_torch(_archive({k: v for k, v in files.items() if "config" not in k}), "net")


@pytest.mark.parametrize("name", ["models/model.json", "data/weights/model_weights_config.json"])
def test_damage(name: str, files: dict[str, bytes]) -> None:
    content = files[name]
    for given in (content[: len(content) // 2], b"[]", b"[" * 100_000, b"null", content.replace(b'"', b"'")):
        with pytest.raises(BuildError, match="not a valid exported program"):
            import_torch(_archive({**files, name: given}), "net")


def test_other_devices(files: dict[str, bytes]) -> None:
    given = dict(files)
    for name in ("models/model.json", "data/weights/model_weights_config.json"):
        given[name] = given[name].replace(b'{"type": "cpu", "index": null}', b'{"type": "cuda", "index": 0}')
    import_torch(_archive(given), "net")


@pytest.mark.parametrize(
    "text",
    [
        "s77", "2*s0 + 1", "Symbol('s77', positive=True, integer=True)", "FloorDiv(Symbol('s0'), Integer(2))", "s0**2",
        "Eq(Mod(s0, 2), 0)", "Mul(Float('0.5', precision=53), ToFloat(u0))", "(s0 >= 0) & (s1 < 5)", "True", "-s0",
        "Pow(Symbol('s0'), Integer(2))", "int_oo",
    ],
)  # fmt: skip
def test_sizes(text: str) -> None:
    check_expression(text)


@pytest.mark.parametrize(
    "text",
    [
        "", "s0.__class__", "print(1)", "().__class__", "lambda: 1", "[s0]", "9**9**9", "s0**100", "(2**8)**8", "x",
        "'s0'", "Symbol('x y')", "Symbol(s0)", "Symbol('s0', is_x='y')", "Pow(9, Pow(9, 9))", "Pow(9, 99)",
        "Float('1' * 9)", "s0;s1", "__import__", "Symbol", "9" * 40, "s0 " * 9000, "(" * 3000, "f'{s0}'", "(s0 := 3)",
        "Max(*s0)",
        "factorial(9)", "Pow(9)", "Symbol()", "Float('9', precision=99999)", 7, None,
    ],
)  # fmt: skip
def test_what_is_no_size(text: object) -> None:
    with pytest.raises(BuildError, match="no arithmetic on sizes"):
        check_expression(text)
