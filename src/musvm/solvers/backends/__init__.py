"""Who computes with the kernel for a solver: the processor, or PyTorch, by one contract."""
