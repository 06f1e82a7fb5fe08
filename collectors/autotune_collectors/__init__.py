"""Sources of signals for kv-autotune: one package or module per source, reached through entry points."""
