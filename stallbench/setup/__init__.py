"""The components that the bench needs from the machine: finds them, installs them, and reports what is missing."""
