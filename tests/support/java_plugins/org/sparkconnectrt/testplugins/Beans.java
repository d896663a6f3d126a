package org.sparkconnectrt.testplugins;

import java.lang.management.ManagementFactory;
import java.util.function.LongSupplier;
import javax.management.JMException;
import javax.management.ObjectName;

/** MBeans as connectors register them: their own domain, names of their own. */
public final class Beans {
  private Beans() {}

  /** What is read: two numbers, one text. */
  public interface StreamingMBean {
    long getPolled();

    double getShare();

    String getState();
  }

  /** The bean. */
  public record Streaming(LongSupplier polled) implements StreamingMBean {
    @Override
    public long getPolled() {
      return polled.getAsLong();
    }

    @Override
    public double getShare() {
      return 0.5;
    }

    @Override
    public String getState() {
      return "streaming";
    }
  }

  static ObjectName register(String connector, int task, LongSupplier polled) {
    try {
      ObjectName name =
          new ObjectName(
              "misbehaving:type=connector-metrics,context=streaming,server="
                  + connector
                  + ",task="
                  + task);
      ManagementFactory.getPlatformMBeanServer().registerMBean(new Streaming(polled), name);
      return name;
    } catch (JMException known) {
      return null; // registered by another task of that name
    }
  }

  static void unregister(ObjectName name) {
    if (name != null) {
      try {
        ManagementFactory.getPlatformMBeanServer().unregisterMBean(name);
      } catch (JMException gone) {
        // it is gone already
      }
    }
  }
}
