"""What obeys a policy inside an engine: ``live`` for any engine, and one package per engine beside it."""
