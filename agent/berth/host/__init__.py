"""This machine: sysfs, uevents, netlink, and the devices found there."""
