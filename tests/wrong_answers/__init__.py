"""Typical wrong answers to the exercises, and the phrase by which each is named."""
