"""Functions of PCI on their way to vfio-pci and back to their drivers."""
