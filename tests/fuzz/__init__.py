"""Generated and mutated training scripts, and the properties that must hold for every one of them."""
