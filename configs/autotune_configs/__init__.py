"""Settings, models, hardware profiles, schemas and sample traces, read with :mod:`importlib.resources`."""
