"""What is done to a NIC, decided before it is done."""
