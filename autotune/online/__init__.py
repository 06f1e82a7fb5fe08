"""The online loop: learn from the past only, publish, and let a guard decide whether what was learned is obeyed.

It is driven by the simulator in trace time and by the sidecar on what it recorded; the steps are the same.
"""
