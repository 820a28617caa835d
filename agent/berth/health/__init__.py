"""How devices are: what speaks against one, the one verdict that this comes to, and how it heals."""
