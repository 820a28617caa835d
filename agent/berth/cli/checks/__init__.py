"""What a machine lacks for a configuration: one module per thing that is looked at."""
