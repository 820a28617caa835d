"""What is kept on disk: records of claims and of what the device plugin gave, one file each."""
