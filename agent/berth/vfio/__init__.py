"""Devices for virtual machines and drivers in user space: bound to vfio-pci, and home again."""
