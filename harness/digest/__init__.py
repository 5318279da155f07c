"""Digests of state parts and of source trees, and where two buffers first differ.

Everything here works on the buffer protocol and imports no tensor library.
"""
