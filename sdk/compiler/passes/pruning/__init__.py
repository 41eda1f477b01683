"""What `prune-channels` is made of: values of channels, which are removed together, and calls without some of them."""
