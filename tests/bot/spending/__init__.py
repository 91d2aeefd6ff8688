"""Tests of the limits on tokens and money."""
