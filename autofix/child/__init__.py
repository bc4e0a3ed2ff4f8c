"""What runs inside the user's interpreter: standard library and torch only, nothing else of this project."""
