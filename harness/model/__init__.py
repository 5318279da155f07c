"""Nouns: frozen, keyword-only, slotted; standard library only; no input, no output, no decisions."""
