"""Those who look at devices for as long as they are watched, and tell the judge."""
