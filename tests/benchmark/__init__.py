"""How many known mistakes are found, and repaired as they should be; and how many correct scripts are left alone."""
