"""Decoders: configuration, layers, and the state they keep."""
