"""Rules over a certificates folder: what may be believed, without hardware and without a network.

``folder`` reads and classifies, ``rules`` find, ``gate`` folds findings to an exit code, ``outputs`` shows them.
No file is written here and nothing is fetched.
"""
