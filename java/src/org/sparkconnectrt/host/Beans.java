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
 * Numbers of the MBeans that plug-ins register, such as Debezium's, and of Connect's own
 * pluginMetrics. They are read on a thread of their own, as reading runs code of plug-ins; the
 * heartbeat takes those that changed. A bean is of the task, or the connector, on whose threads it
 * was registered. What owns one is a task's number or a connector's instance.
 */
final class Beans implements Runnable {
  private static final Logger log = LoggerFactory.getLogger(Beans.class);
  private static final long EACH_MILLIS = 2_000;
  private static final int MOST_OF_ONE = 300;
  private static final int LONGEST_NAME = 300;

  private final Home home;
  private final MBeanServer server = ManagementFactory.getPlatformMBeanServer();
  private final Map<ObjectName, Object> owners = new ConcurrentHashMap<>();
  private final Map<Object, Map<String, ObjectNode>> changed = new HashMap<>();
  private final Map<Object, Map<String, Double>> told = new HashMap<>();
  private boolean complained;

  private Beans(Home home) {
    this.home = home;
  }

  static Beans start(Home home) {
    Beans beans = new Beans(home);
    try {
      beans.server.addNotificationListener(
          MBeanServerDelegate.DELEGATE_NAME,
          (notification, none) -> beans.noted(notification),
          null,
          null);
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
      Object owner = task == null ? Connectors.CURRENT.get() : Integer.valueOf(task.host);
      if (one.getType().equals(MBeanServerNotification.UNREGISTRATION_NOTIFICATION)) {
        owners.remove(name);
      } else if (owner != null && name.toString().length() <= LONGEST_NAME && isOfPlugin(name)) {
        owners.put(name, owner);
      }
    }
  }

  private static boolean isOfPlugin(ObjectName name) {
    String domain = name.getDomain();
    return domain.equals("kafka.connect")
        ? "plugins".equals(name.getKeyProperty("type"))
        : !domain.startsWith("java.")
            && !domain.startsWith("JMImplementation")
            && !domain.startsWith("com.sun.");
  }

  @Override
  public void run() {
    try {
      while (true) {
        Thread.sleep(EACH_MILLIS);
        Map<Object, Integer> counts = new HashMap<>();
        owners.forEach((name, owner) -> read(name, owner, counts));
        forgetEnded();
      }
    } catch (InterruptedException end) {
      Thread.currentThread().interrupt();
    }
  }

  private void read(ObjectName name, Object owner, Map<Object, Integer> counts) {
    try {
      for (MBeanAttributeInfo info : server.getMBeanInfo(name).getAttributes()) {
        if (info.isReadable() && counts.getOrDefault(owner, 0) < MOST_OF_ONE) {
          for (Object one : server.getAttributes(name, new String[] {info.getName()})) {
            Object value = ((Attribute) one).getValue();
            if (value instanceof Number number && Double.isFinite(number.doubleValue())) {
              counts.merge(owner, 1, Integer::sum);
              note(name, owner, info.getName(), number.doubleValue());
            } else if (value instanceof Boolean bool) {
              counts.merge(owner, 1, Integer::sum);
              note(name, owner, info.getName(), bool ? 1 : 0);
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

  private synchronized void note(ObjectName name, Object owner, String attribute, double value) {
    String key = name + "#" + attribute;
    Double before = told.computeIfAbsent(owner, o -> new HashMap<>()).put(key, value);
    if (before == null || before != value) {
      ObjectNode one = Wire.JSON.createObjectNode();
      one.put("domain", name.getDomain());
      one.set("keys", Wire.JSON.valueToTree(new TreeMap<>(name.getKeyPropertyList())));
      one.put("attribute", attribute);
      one.put("value", value);
      changed.computeIfAbsent(owner, o -> new HashMap<>()).put(key, one);
    }
  }

  private synchronized void forgetEnded() {
    var alive = home.owners();
    told.keySet().retainAll(alive);
    changed.keySet().retainAll(alive);
    owners.values().retainAll(alive);
  }

  /**
   * Adds what changed of a task's or a connector's beans since the last time; returns whether
   * anything did.
   */
  synchronized boolean tell(Object owner, ObjectNode beat) {
    Map<String, ObjectNode> news = changed.remove(owner);
    if (news == null) {
      return false;
    }
    ArrayNode list = beat.putArray("beans");
    news.values().forEach(list::add);
    return true;
  }
}
