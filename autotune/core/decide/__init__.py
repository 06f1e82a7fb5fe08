"""The decision arithmetic: plain scalar functions in Numba's subset, without importing Numba.

The engine runs these functions as they stand; the compiled simulator wraps the very same functions. They use only
IEEE basic operations and exact scaling, so the two cannot differ in the last bit.
"""
