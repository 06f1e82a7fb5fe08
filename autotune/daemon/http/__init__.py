"""The sidecar over HTTP: health, metrics, what it knows and decided, a page with pictures, and a few orders.

It sees the daemon through :class:`autotune.daemon.status.Controller` only.
"""
