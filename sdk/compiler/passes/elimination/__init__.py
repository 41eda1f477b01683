"""What `eliminate` is made of: what channels hold, which stand or fall together, and calls without some of them."""
