"""Language models: from a checkpoint to tokens."""
