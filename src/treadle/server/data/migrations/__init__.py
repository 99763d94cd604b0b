"""How the tables came about, step by step; Alembic runs what is here."""
