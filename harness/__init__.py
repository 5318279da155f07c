"""statecert: qualification and certification of LLM session state.

The street, in one line: scenarios -> plan -> run -> evidence -> derive -> certificate -> gate -> report.
``docs/ARCHITECTURE.md`` holds the rules that the folders keep.
"""

__version__ = "0.1.0"
