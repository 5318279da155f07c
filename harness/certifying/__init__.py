"""Issues certificates from closed evidence, keeps the store and the append-only ledger."""
