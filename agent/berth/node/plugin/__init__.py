"""What the device plugin lists and gives, and how it learns who has it."""
