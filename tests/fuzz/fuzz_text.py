"""Mutations of a program's text: tokens removed, doubled, exchanged, numbers replaced."""

from __future__ import annotations

import re

import numpy as np

_TOKEN = re.compile(r"\s+|[A-Za-z_]\w*|\d+(?:\.\d+)?|.", re.DOTALL)
NUMBERS = ("0", "1", "-1", "2147483647", "2147483648", "4611686018427387904", "9" * 60, "9" * 5000, "0.5", "nan")
DEEP = ("(" * 3000, "-" * 3000, "[" * 200, "1 + " * 3000 + "1", "{" * 500, "max(1, " * 300)


def mutated(text: str, rng: np.random.Generator) -> str:
    """A copy of the text with one to four tokens changed."""
    tokens = _TOKEN.findall(text)
    for _ in range(int(rng.integers(1, 5))):
        at, other = (int(k) for k in rng.integers(len(tokens), size=2))
        match int(rng.integers(7)):
            case 0:
                tokens[at] = ""
            case 1:
                tokens[at] = tokens[at] * 2
            case 2:
                tokens[at], tokens[other] = tokens[other], tokens[at]
            case 3:
                tokens[at] = tokens[other]
            case 4:
                numbers = [k for k, t in enumerate(tokens) if t[:1].isdigit()]
                if numbers:
                    where = numbers[int(rng.integers(len(numbers)))]
                    tokens[where] = NUMBERS[int(rng.integers(len(NUMBERS)))]
            case 5:
                lines = "".join(tokens).split("\n")
                k, j = (int(n) for n in rng.integers(len(lines), size=2))
                lines[k] = lines[j]
                tokens = _TOKEN.findall("\n".join(lines))
            case _:
                if rng.random() < 0.1:
                    tokens[at] = DEEP[int(rng.integers(len(DEEP)))]
    return "".join(tokens)
