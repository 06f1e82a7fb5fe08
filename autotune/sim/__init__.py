"""Simulator of an engine's tiered KV cache."""
