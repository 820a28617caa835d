"""Who has what, as the records say."""
