"""Ways to a certified solution of the dual; `choose` takes one of them."""
