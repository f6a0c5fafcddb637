"""Attacks on the library: kills, flipped bits, full disks, wrong input."""
