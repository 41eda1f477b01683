"""Networks of common kinds, exported to ONNX with random weights; files are kept under a hash of what made them."""
