"""Functions in C: loops, values, instructions and assembly of a kernel as text."""
