"""The GPUs of NVIDIA's driver: the session with it, what it says, and who computes."""
