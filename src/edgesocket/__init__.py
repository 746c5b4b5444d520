"""EdgeSocket: a streaming ingress for edge collectors, acknowledged by completed checkpoints."""

__version__ = "0.1.0"
