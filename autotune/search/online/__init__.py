"""The search over the online loop's own settings: what to fit, how often, and how to act on it."""
