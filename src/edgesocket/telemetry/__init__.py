"""What a job tells: events that happened, what is counted of them, and the catalogue of metrics. Pure."""
