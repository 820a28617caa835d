"""How devices are: what speaks against one, the one verdict on it, and how it heals."""
