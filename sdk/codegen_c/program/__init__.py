"""Programs in C: the header, the run over a plan, weights, state and self test around kernels."""
