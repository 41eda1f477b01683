"""The three-level IR: graphs, loops and plans in one module."""
