"""One standalone worker under plain ``spark-submit``: ``spark-submit ... jobs/connect_standalone.py FILE ...``."""

import sys

from spark_connect_rt.app.cli import main

if __name__ == "__main__":
    main(["standalone", *sys.argv[1:]])
