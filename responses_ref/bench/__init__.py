"""Benchmarks: what a kept connection and its cached state save, and what sending a token costs.

Every benchmark starts real servers as processes of their own and drives them over
loopback TCP.  What it claims about work is counted, what it claims about time is a ratio
within one run.
"""
