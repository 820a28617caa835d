"""The operator's settings: what each means, and how a file becomes one."""
