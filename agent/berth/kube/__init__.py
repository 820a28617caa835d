"""The API server: its objects, the credentials for it, and the few requests made to it."""
