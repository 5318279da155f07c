"""Patience of the tests; the plugin comes by its entry point (``pytest11``), and a plugin loaded twice is an error."""

from hypothesis import HealthCheck, settings

# how long a made-up input takes says how busy the machine is, not whether a property holds
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")
