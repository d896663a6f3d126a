"""Side-by-side benchmarks: ours, Java Connect and the limit of the machine, on one broker in one run."""
