"""Many checkouts, one report: each is checked, or repaired and proved, in a bounded process of its own."""
