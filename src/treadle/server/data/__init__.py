"""The database: its tables and settings, its errors, how it is brought up to date, folds of it."""
