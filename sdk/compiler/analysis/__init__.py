"""What is read off the IR, each notion once: accesses, dependence, patterns, work, what a call of a function runs."""
