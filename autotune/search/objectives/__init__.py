"""What the search minimises; plug-ins of the group ``autotune.objectives``.

Objectives return values relative to LRU's own, so that 0 is LRU and below 0 is better, on every trace.
"""
