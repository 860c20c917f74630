"""What if: file systems sized, and policies swept, on the twin. All of it is simulation."""
