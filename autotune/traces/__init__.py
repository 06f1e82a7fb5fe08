"""Trace readers: files of one format in, columns out.

One small module per format, each registered in the entry-point group ``autotune.traces`` as a callable
``read(paths, *, on_error="fail", ...) -> Trace``. Shared below them: ``files`` (globs, compression, bounded reading),
``intake`` (malformed rows and provenance), ``fields`` (typed access to one row), ``columns`` (rows to columns).
``stats`` describes a trace, ``merge`` and ``coarsen`` transform one.
"""
