"""Exports, imports and runs PyTorch's own samples of its operators: a program, as what holds the samples changes
settings of PyTorch, and others, for the whole process when it is imported.

    python torch_samples.py SEED COUNT [--some N | --part K/PARTS | --planted]

Prints a line of JSON: how many ended in which way, and each that ended as none may.
"""

from __future__ import annotations

import argparse
import json
import random
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten, tree_unflatten
from torch_harness import agree, flat, imported, interpreted

from sdk.errors import BuildError, UsageError

LARGE = 100_000  # elements of an input that takes too long
TYPES = (torch.float32, torch.int64, torch.bool, torch.uint8, torch.float16)
# operators and variants of which PyTorch leaves open what comes out
OPEN = {
    "memory as it was": ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"),
    "signs of vectors": ("svd", "linalg.svd", "linalg.eigh", "linalg.eig"),
    "matrices that are not as they are said to be": ("linalg.pinv.hermitian",),
}
TIES = ("kthvalue", "topk")  # which of equal elements is meant is open too: samples of integers have such
BYTES = ("interpolate", "upsample")  # weights of bytes are rounded: now and then PyTorch's fall to the other side


class Net(nn.Module):
    """An operator, the tensors among its arguments as inputs, the other arguments as they are."""

    def __init__(self, op: Any, sample: Any) -> None:
        super().__init__()
        self.op = op
        self.leaves, self.spec = tree_flatten(((sample.input, *sample.args), sample.kwargs))
        self.places = [k for k, leaf in enumerate(self.leaves) if isinstance(leaf, Tensor)]

    def forward(self, *tensors: Tensor) -> Any:
        leaves = list(self.leaves)
        for k, tensor in zip(self.places, tensors, strict=True):
            leaves[k] = tensor
        args, named = tree_unflatten(leaves, self.spec)
        return self.op(*args, **named)


def samples(op: Any, count: int, rng: random.Random) -> Iterator[tuple[Net, tuple[Tensor, ...]]]:
    """Up to so many modules of an operator, with inputs, for each type."""
    for kind in TYPES:
        if kind not in op.dtypes or (op.name in TIES and not kind.is_floating_point):
            continue
        if kind == torch.uint8 and any(word in op.name for word in BYTES):
            continue
        torch.manual_seed(rng.randrange(1 << 30))
        made = list(op.sample_inputs("cpu", kind, requires_grad=False))
        for sample in rng.sample(made, min(count, len(made))):
            net = Net(op.op, sample)
            tensors = tuple(net.leaves[k].detach().clone() for k in net.places)
            if tensors and all(t.numel() <= LARGE for t in tensors):
                yield net, tensors


def outcome(net: Net, tensors: tuple[Tensor, ...]) -> str:
    """How one ends; a fault where it does not start with a word of ``FINE``."""
    try:
        want, again = results(net, tensors), results(net, tensors)
    except Exception:  # samples of errors, and those that want what this build of PyTorch has not
        return "not run by PyTorch"
    if not all(np.array_equal(a, b, equal_nan=a.dtype.kind in "fc") for a, b in zip(want, again, strict=True)):
        return "random"
    try:
        got = interpreted(imported(net, tensors)[0], tensors)
        assert len(got) == len(want), f"{len(got)} results, not {len(want)}"
        if all(map(close, got, want)):
            return "equal"
        for a, b in zip(got, of_floats(net, tensors, want), strict=True):
            agree(a, b, 5e-3 if b.dtype == np.float16 else 1e-4)
    except (BuildError, UsageError):
        return "refused"
    except AssertionError as wrong:
        return f"wrong: {wrong}"
    except Exception as fault:  # whatever it is: no user may see it
        return f"fault: {fault!r}"
    return "equal"


def results(net: Net, tensors: Sequence[Tensor]) -> list[np.ndarray]:
    """What PyTorch computes."""
    with torch.no_grad():
        return flat(net(*(t.clone() for t in tensors)))


def close(got: np.ndarray, want: np.ndarray) -> bool:
    """Whether they agree."""
    try:
        agree(got, want, 2e-3 if want.dtype == np.float16 else 1e-4)
    except AssertionError:
        return False
    return True


def of_floats(net: Net, tensors: Sequence[Tensor], want: list[np.ndarray]) -> list[np.ndarray]:
    """What PyTorch computes of the same numbers in 32 bits, where some have 16, which it may round at each step."""
    if all(t.dtype != torch.float16 for t in tensors):
        return want
    wide = results(net, [t.float() if t.dtype == torch.float16 else t for t in tensors])
    return [a.astype(b.dtype) for a, b in zip(wide, want, strict=True)]


FINE = ("equal", "refused", "random", "not run")


def judge(operators: Sequence[Any], count: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Runs samples of each; how many ended in which way, and those that ended as none may."""
    found: Counter[str] = Counter()
    faults = []
    rng = random.Random(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for op in operators:
            for net, tensors in samples(op, count, rng):
                ended = outcome(net, tensors)
                found[ended.split(":")[0]] += 1
                if not ended.startswith(FINE):
                    given = [f"{t.dtype} {tuple(t.shape)}" for t in tensors]
                    others = [leaf for leaf in net.leaves if not isinstance(leaf, Tensor)]
                    faults.append(f"{op.name} of {given} and {others}: {ended}")
    return found, faults


LEFT = {name for names in OPEN.values() for name in names}
OPERATORS = [op for op in op_db if not {op.name, f"{op.name}.{op.variant_test_name}"} & LEFT]


def main() -> None:
    """Runs what the command line says."""
    parser = argparse.ArgumentParser()
    parser.add_argument("seed", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--some", type=int)
    parser.add_argument("--part")
    parser.add_argument("--planted", action="store_true", help="an operator that does something else when exported")
    args = parser.parse_args()
    operators = OPERATORS
    if args.some:
        operators = random.Random(args.seed).sample(OPERATORS, args.some)
    elif args.part:
        which, parts = map(int, args.part.split("/"))
        operators = OPERATORS[which::parts]
    elif args.planted:
        operators = [op for op in OPERATORS if op.name == "neg"]
        operators[0].op = lambda x: torch.abs(x) if torch.compiler.is_exporting() else torch.neg(x)
    found, faults = judge(operators, args.count, args.seed)
    print(json.dumps({"found": found, "faults": faults}))


if __name__ == "__main__":
    main()
