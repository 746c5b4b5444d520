"""Fuzzing: any bytes into everything that reads bytes from outside. See docs/fuzzing.md."""
