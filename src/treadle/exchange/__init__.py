"""Threads in and out: sessions of other programs come in, threads go out in forms to read."""
