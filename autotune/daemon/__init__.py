"""The sidecar: watches a running engine, learns, tunes on what was recorded, publishes, guards and rolls back.

What runs in its process is light: neither Numba nor scikit-learn, Optuna or pyarrow is imported here. Fitting and
searching happen in children that end.
"""
