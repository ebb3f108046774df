"""Doubles for tests of programs that use handrail: public, and held to the same contracts as the real parts."""
