"""Claims from prepare to unprepare, and what is told of them."""
