"""Our own rtnetlink: messages to bytes and back (pure), and the sockets that carry them.

Read `message` and `attributes` for the wire format, then one module per table of the kernel
(`link`, `address`, `route`, `rule`, `neighbor`, `nexthop`, `nsid`), then `socket`, `namespace` and
`rtnl` for how a worker thread asks, and `events` for how a trio task listens.
"""
