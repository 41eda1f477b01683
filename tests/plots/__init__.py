"""Plots and pages: what is drawn, and how a browser shows it."""
