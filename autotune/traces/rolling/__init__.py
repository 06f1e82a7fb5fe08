"""The sidecar's recording: a folder of segments that grows at one end and is cut at the other.

``epochs`` has its vocabulary, ``journal`` the files that rows are appended to, ``columns`` the same rows as columns and
as Parquet, ``recorder`` writes, ``feed`` brings it what collectors hand on, and ``folder`` reads it back as a trace.
Writing needs no pyarrow; a process of its own, ``python -m autotune.traces.compact``, turns full journals into Parquet.
"""
