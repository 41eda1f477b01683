"""Streams of rows: consecutive calls run row by row through rings, which part of a net that pays for, and the plan."""
