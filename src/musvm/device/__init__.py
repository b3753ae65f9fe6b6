"""Computing where the caller's tensors are; imported only once a tensor has arrived."""
