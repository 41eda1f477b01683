"""Schedules: primitives with proof obligations, and the default rules that use them."""
