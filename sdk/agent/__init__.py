"""`sdk agent`: takes programs over the network, runs each as a child, and stays up whatever they do (SPEC.md)."""

from sdk.agent.server import Limits, Server

__all__ = ["Limits", "Server"]
