"""Models of a folder on every core that holds them: what comes of each, by reason."""
