"""The quantiser: a float model and samples of its inputs become an ONNX model of integers, with a report on it."""
