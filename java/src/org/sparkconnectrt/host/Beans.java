package org.sparkconnectrt.host;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.management.ManagementFactory;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import javax.management.Attribute;
import javax.management.InstanceNotFoundException;
import javax.management.JMException;
import javax.management.MBeanAttributeInfo;
import javax.management.MBeanServer;
import javax.management.MBeanServerDelegate;
import javax.management.MBeanServerNotification;
import javax.management.ObjectName;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Numbers of the MBeans that plug-ins register, such as Debezium's, and of Connect's own pluginMetrics.
 * They are read on a thread of their own, as reading runs code of plug-ins; the heartbeat takes those
 * that changed. A bean is of the task on whose threads it was registered.
 */
final class Beans implements Runnable {
  private static final Logger log = LoggerFactory.getLogger(Beans.class);
  private static final long EACH_MILLIS = 2_000;
  private static final int MOST_OF_TASK = 300;
  private static final int LONGEST_NAME = 300;

  private final Home home;
  private final MBeanServer server = ManagementFactory.getPlatformMBeanServer();
  private final Map<ObjectName, Integer> owners = new ConcurrentHashMap<>();
  private final Map<Integer, Map<String, ObjectNode>> changed = new HashMap<>();
  private final Map<Integer, Map<String, Double>> told = new HashMap<>();
  private boolean complained;

  private Beans(Home home) {
    this.home = home;
  }

  static Beans start(Home home) {
    Beans beans = new Beans(home);
    try {
      beans.server.addNotificationListener(
          MBeanServerDelegate.DELEGATE_NAME, (notification, none) -> beans.noted(notification), null, null);
    } catch (InstanceNotFoundException impossible) {
      throw new IllegalStateException(impossible);
    }
    Thread thread = new Thread(beans, "beans");
    thread.setDaemon(true);
    thread.start();
    return beans;
  }

  /** On the thread that registers, so it says whose bean it is. */
  private void noted(Object notification) {
    if (notification instanceof MBeanServerNotification one) {
      ObjectName name = one.getMBeanName();
      Hosted<?, ?> task = Hosted.CURRENT.get();
      if (one.getType().equals(MBeanServerNotification.UNREGISTRATION_NOTIFICATION)) {
        owners.remove(name);
      } else if (task != null && name.toString().length() <= LONGEST_NAME && isOfPlugin(name)) {
        owners.put(name, task.host);
      }
    }
  }

  private static boolean isOfPlugin(ObjectName name) {
    String domain = name.getDomain();
    return domain.equals("kafka.connect")
        ? "plugins".equals(name.getKeyProperty("type"))
        : !domain.startsWith("java.") && !domain.startsWith("JMImplementation") && !domain.startsWith("com.sun.");
  }

  @Override
  public void run() {
    try {
      while (true) {
        Thread.sleep(EACH_MILLIS);
        Map<Integer, Integer> counts = new HashMap<>();
        owners.forEach((name, host) -> read(name, host, counts));
        forgetEnded();
      }
    } catch (InterruptedException end) {
      Thread.currentThread().interrupt();
    }
  }

  private void read(ObjectName name, int host, Map<Integer, Integer> counts) {
    try {
      for (MBeanAttributeInfo info : server.getMBeanInfo(name).getAttributes()) {
        if (info.isReadable() && counts.getOrDefault(host, 0) < MOST_OF_TASK) {
          for (Object one : server.getAttributes(name, new String[] {info.getName()})) {
            Object value = ((Attribute) one).getValue();
            if (value instanceof Number number && Double.isFinite(number.doubleValue())) {
              counts.merge(host, 1, Integer::sum);
              note(name, host, info.getName(), number.doubleValue());
            } else if (value instanceof Boolean bool) {
              counts.merge(host, 1, Integer::sum);
              note(name, host, info.getName(), bool ? 1 : 0);
            }
          }
        }
      }
    } catch (JMException | RuntimeException | LinkageError error) { // code of plug-ins
      if (!complained) {
        complained = true;
        log.warn("MBean {} cannot be read, it is left out", name, error);
      }
    }
  }

  private synchronized void note(ObjectName name, int host, String attribute, double value) {
    String key = name + "#" + attribute;
    Double before = told.computeIfAbsent(host, h -> new HashMap<>()).put(key, value);
    if (before == null || before != value) {
      ObjectNode one = Wire.JSON.createObjectNode();
      one.put("domain", name.getDomain());
      one.set("keys", Wire.JSON.valueToTree(new TreeMap<>(name.getKeyPropertyList())));
      one.put("attribute", attribute);
      one.put("value", value);
      changed.computeIfAbsent(host, h -> new HashMap<>()).put(key, one);
    }
  }

  private synchronized void forgetEnded() {
    var hosts = home.numbers();
    told.keySet().retainAll(hosts);
    changed.keySet().retainAll(hosts);
    owners.values().retainAll(hosts);
  }

  /** Adds what changed of a task's beans since the last time. */
  synchronized void tell(Hosted<?, ?> task, ObjectNode beat) {
    Map<String, ObjectNode> news = changed.remove(task.host);
    if (news != null) {
      ArrayNode list = beat.putArray("beans");
      news.values().forEach(list::add);
    }
  }
}
