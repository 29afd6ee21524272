"""Rows and exact counts exist only here. Nothing on the public side imports this package; `curate` is the door."""
