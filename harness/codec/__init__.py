"""The CacheGen codec of K/V rows and the block formats: a plain-integer oracle, and fast paths equal to it bit for bit.

Stands aside like the embedded engine: imports nothing of the harness, so that engines and the harness may both use it.

    values ──quantise──▶ symbols + row maxima ──┬─ LCG1: CDFs + one arithmetic-coder stream per channel   (dense)
                                                └─ LCG2: fixed-width packed symbols                       (device)
    segments of a page ──▶ CKG1 archive;  CGv1 is the earlier static rANS tile, kept as a historical format

Which path runs is the caller's declared choice (`paths.coder`); a path that is not here is refused, never replaced.
"""
