"""The compiler: symbolic integers, three levels of IR, ops, passes, schedules and the memory planner."""
