"""The NRI plugin: from bytes to what each pod event does."""
