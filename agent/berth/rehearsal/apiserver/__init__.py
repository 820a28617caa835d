"""A small API server in memory: slices, claims, classes, nodes and pods, over HTTP.

It serves the rehearsal and the tests of everything that talks to the API server, and behaves as
kube-apiserver 1.37.2 was seen to (KC §4, §7; ``tests/cluster`` compares the two). It schedules
nothing and keeps nothing: `berth.rehearsal.apiserver.server.ApiServer` has methods to play the
scheduler, kubelet and an administrator.

Left out on purpose: TLS, discovery, admission by policy, label selectors, other patch types than
merge and apply, and every resource that the agent never asks for.
"""
