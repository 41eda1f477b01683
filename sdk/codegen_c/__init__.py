"""Backends: one folder a kind of generated source."""
