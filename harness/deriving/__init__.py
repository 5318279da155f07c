"""Pure derivations: from a scenario its product, from evidence its decisions, from a ledger a status.

No clock, no files, no devices: the same bytes in give the same bytes out on every machine.
"""
