"""Readers of model files: each turns bytes into a module of stage "imported"."""
