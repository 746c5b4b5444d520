"""What jobs may do with rows on their way: one file a transform."""
