"""Container Device Interface files, one per claim and kind."""
