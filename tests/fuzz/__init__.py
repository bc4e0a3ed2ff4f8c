"""Generated and mutated training scripts, and what must hold for each of them, whatever it holds itself."""
