"""NVIDIA's management library: the only package that imports pynvml.

`owner` is the face: a session that is opened, kept, given up and taken up again, walks and probes
of GPUs, and their events. Below it `library` loads, `calls`, `describe` and `mig` ask, in worker
threads that `registry` keeps count of, and `listener` hears events. `session`, `silence`, `pace`,
`values` and `words` decide and translate, and are pure. No call that changes a GPU is bound.
"""
