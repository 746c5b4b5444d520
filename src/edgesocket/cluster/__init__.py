"""Jobs on several machines: orders in the shared store, host processes that Ray places, watches and starts again."""
