"""How two loops functions become one: what fusion merges, and when that is worth it."""
