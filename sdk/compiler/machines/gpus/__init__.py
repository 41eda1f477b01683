"""What the compiler knows of GPUs: records, and the rows that there are."""
