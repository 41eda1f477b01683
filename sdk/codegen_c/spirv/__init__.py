"""SPIR-V for Vulkan 1.1, written as words: loops functions as kernels of work items."""
