"""Limits on tokens and money: pools from which every model call draws."""
