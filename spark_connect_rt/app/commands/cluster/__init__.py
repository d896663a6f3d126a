"""The words of ``connectrt`` that steer a cluster over REST. What they do is ``app/cluster``, imported when needed."""
