"""What any engine needs to obey a policy file: settings, the file's watcher, the host index, records and logs.

Pure Python on :mod:`autotune.core`; no engine is imported here.
"""
