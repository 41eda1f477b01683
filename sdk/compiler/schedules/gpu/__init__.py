"""Schedules of work items: what one item of a kernel computes, and how it reads it."""
