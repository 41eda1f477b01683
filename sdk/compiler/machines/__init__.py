"""The machines that code is made for: a file for each architecture, a row for each kind of core."""
