"""Verifiers: everything that must hold of a module at its stage, and of a plan against what it computes."""
