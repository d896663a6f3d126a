"""Makes the Python environment that ``spark-submit.sh`` runs in. Standard library only: nothing is installed yet."""
