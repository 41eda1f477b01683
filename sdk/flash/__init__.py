"""Flashing: images in the formats that runners take, runners started with a time limit, and what their words mean."""
