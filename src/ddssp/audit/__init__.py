"""Audits: an adversary who knows all rows but one plays against the product, and we count how often it wins.

Two neighbouring tables, the worst that we know, are released many times. The adversary sees a release and says which table
it came from; from its two error rates follows, with a stated confidence, how much privacy was lost at least. If that is more
than was claimed, something is broken. A bound below the claim proves nothing by itself, so each audit has a twin with 0.7 of
the noise, which it must catch.
"""
