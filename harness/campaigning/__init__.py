"""Campaigns: long runs whose result is one certificate. One module per campaign; ``campaign.py`` is what they share."""
