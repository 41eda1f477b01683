"""Importers: one folder a model format."""
