"""Conformance suites that the tests of plug-ins subclass; they need pytest and hypothesis."""
