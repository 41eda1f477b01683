"""The memory level: placing, checking and reporting buffers."""
