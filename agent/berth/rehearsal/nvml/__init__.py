"""A stand-in for NVIDIA's management library, in C of our own: it needs no GPU and no driver.

`build` compiles it, `world` writes the file that it takes its GPUs and faults from, `cards` has
GPUs to put there. It shows our behaviour, never the driver's.
"""
