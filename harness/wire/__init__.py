"""Text and bytes to values and back: strict JSON, canonical bytes, YAML, schemas, files.

This folder alone knows how documents look as bytes. YAML and schema libraries are imported inside
the functions that use them, so that a command which reads certificates starts fast.
"""
