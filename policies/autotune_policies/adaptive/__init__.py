"""Policies that tune themselves between recency and frequency."""
