"""Measures of the source: `make house` prints them, `make mutants` tests the tests."""
