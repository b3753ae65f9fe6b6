"""Reading what was given: validation, weights and caps, copies of rows, digests, tensors."""
