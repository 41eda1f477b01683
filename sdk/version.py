"""The one place that holds the version, read by the packaging and by everything that prints it."""

VERSION = "0.1.0"
