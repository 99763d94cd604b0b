"""Agents for programs: typed dependencies, typed answers, threads by names of the program's own."""
