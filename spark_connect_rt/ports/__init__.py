"""The Protocols that the inside needs from outside, and the values that cross them."""
