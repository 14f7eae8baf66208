"""What is run from the repository: each module says how."""
