"""The line protocol, without any I/O: bytes in, commands and replies out, for both roles."""
