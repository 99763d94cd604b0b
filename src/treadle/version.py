"""The version of this program; a module of its own, so that to know it imports nothing else."""

__version__ = "0.1.0"
