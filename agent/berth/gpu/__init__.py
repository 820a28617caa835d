"""What becomes of GPUs: which are offered, in which form, and what a container gets of them."""
