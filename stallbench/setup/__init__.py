"""What the machine needs: find it, install it, and say what is missing."""
