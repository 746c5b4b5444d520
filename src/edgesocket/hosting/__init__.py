"""What is done with whole jobs, and called by the command line and by the HTTP server alike."""
