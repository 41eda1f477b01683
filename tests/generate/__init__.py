"""A generator of small networks: ``generate(seed, kind)`` draws one, ``shrink`` makes a failing one smaller."""

from .inputs import values
from .making import generate, pruned
from .network import KINDS, Layer, Network, Spec, Unfit
from .shrinking import shrink, size_of

__all__ = ["KINDS", "Layer", "Network", "Spec", "Unfit", "generate", "pruned", "shrink", "size_of", "values"]
