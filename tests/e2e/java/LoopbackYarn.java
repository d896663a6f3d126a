// Runs a YARN of one ResourceManager and one NodeManager in this JVM, for
// tests/e2e/yarn_cluster.py.
// Arguments: the folder that gets yarn-site.xml once applications may be submitted, the node's
// memory in MB.

import java.io.File;
import java.io.FileOutputStream;
import java.io.OutputStream;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.MiniYARNCluster;

public class LoopbackYarn {
  private static final String SCHEDULER = "yarn.scheduler.capacity.";
  private static final String NODE = "yarn.nodemanager.";

  public static void main(String[] arguments) throws Exception {
    YarnConfiguration conf = new YarnConfiguration();
    conf.set(
        "yarn.resourcemanager.scheduler.class",
        "org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacityScheduler");
    conf.set(SCHEDULER + "root.queues", "default");
    conf.set(SCHEDULER + "root.default.capacity", "100");
    conf.set(SCHEDULER + "maximum-am-resource-percent", "0.8");
    conf.setInt("yarn.scheduler.minimum-allocation-mb", 128);
    conf.setInt(NODE + "resource.memory-mb", Integer.parseInt(arguments[1]));
    conf.setInt(NODE + "resource.cpu-vcores", 8);
    conf.setBoolean(NODE + "vmem-check-enabled", false);
    conf.setBoolean(NODE + "pmem-check-enabled", false);
    // Logs of containers are read when a test fails; a full disk of the machine is none of the
    // test's.
    conf.setInt(NODE + "delete.debug-delay-sec", 600);
    conf.setFloat(NODE + "disk-health-checker.max-disk-utilization-per-disk-percentage", 99.9f);
    conf.set("yarn.resourcemanager.bind-host", "127.0.0.1");
    conf.set(NODE + "bind-host", "127.0.0.1");
    MiniYARNCluster cluster = new MiniYARNCluster("yarn", 1, 1, 1);
    cluster.init(conf);
    cluster.start();
    if (!cluster.waitForNodeManagersToConnect(60000)) {
      throw new IllegalStateException("the NodeManager did not register within a minute");
    }
    File draft = new File(arguments[0], "yarn-site.xml.draft");
    OutputStream out = new FileOutputStream(draft);
    try {
      cluster.getConfig().writeXml(out);
    } finally {
      out.close();
    }
    draft.renameTo(new File(arguments[0], "yarn-site.xml"));
    Thread.sleep(Long.MAX_VALUE);
  }
}
