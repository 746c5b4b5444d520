"""The options of each sink and transform: one file a plugin."""
