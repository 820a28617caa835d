"""How devices are: what speaks against one, the verdict that this comes to, and how it heals."""
