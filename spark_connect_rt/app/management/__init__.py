"""Puts together what stands behind the management API of one worker, and starts and stops it."""
