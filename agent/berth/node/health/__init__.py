"""How every device is: one judge, its file, its log, and the rounds of those who ask."""
