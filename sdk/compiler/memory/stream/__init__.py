"""Streams of rows: consecutive calls run row by row through ring buffers; where that saves memory, and the plan."""
