package org.sparkconnectrt.host;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.lang.management.BufferPoolMXBean;
import java.lang.management.ManagementFactory;
import java.lang.management.MemoryUsage;

/**
 * Says once a second that this JVM lives, what memory it takes, and in which call each task is,
 * since when. It runs no code of plug-ins, so nothing but the JVM itself can hold it up.
 */
final class Heartbeat implements Runnable {
  private static final long EACH_MILLIS = 1_000;
  private static final long GARBAGE_MILLIS = Long.getLong("connectrt.garbage.limit.ms", 15_000);
  private static final int JVM_EACH =
      5; // heartbeats; its numbers change always and are of little haste

  private final Home home;
  private final Beans beans;

  private Heartbeat(Home home, Beans beans) {
    this.home = home;
    this.beans = beans;
  }

  static void start(Home home) {
    Thread thread = new Thread(new Heartbeat(home, Beans.start(home)), "heartbeat");
    thread.setDaemon(true);
    thread.setPriority(Thread.MAX_PRIORITY);
    thread.start();
  }

  @Override
  public void run() {
    try {
      GarbageLimit limit = new GarbageLimit(GARBAGE_MILLIS, millis());
      for (long number = 0; true; number++) {
        Thread.sleep(EACH_MILLIS);
        endIf(limit.complaint(millis()));
        ObjectNode jvm = jvm();
        ObjectNode beat = Wire.JSON.createObjectNode();
        beat.set("jvm", jvm);
        home.wire.write('U', 0, beat);
        for (Hosted<?, ?> task : home.tasks()) {
          ObjectNode ofTask = Wire.JSON.createObjectNode();
          if (number % JVM_EACH == 0) {
            ofTask.set("jvm", jvm);
          }
          task.doing.tell(ofTask);
          beans.tell(task.host, ofTask);
          home.wire.write('U', task.host, ofTask);
        }
        for (var making : home.made().entrySet()) {
          ObjectNode ofTask = Wire.JSON.createObjectNode();
          making.getValue().tell(ofTask);
          home.wire.write('U', making.getKey(), ofTask);
        }
        for (String instance : home.instances()) {
          ObjectNode ofConnector = Wire.JSON.createObjectNode();
          if (beans.tell(instance, ofConnector)) {
            ofConnector.put("instance", instance);
            ofConnector.put("event", "beans");
            home.wire.write('N', 0, ofConnector);
          }
        }
      }
    } catch (IOException | InterruptedException gone) {
      Host.exit(Host.PYTHON_GONE);
    }
  }

  private static void endIf(String complaint) {
    if (complaint != null) {
      System.out.println(complaint); // Python keeps what is printed last
      Host.exit(GarbageLimit.OUT_OF_MEMORY);
    }
  }

  private static long millis() {
    return System.nanoTime() / 1_000_000;
  }

  private static ObjectNode jvm() {
    ObjectNode found = Wire.JSON.createObjectNode();
    MemoryUsage heap = ManagementFactory.getMemoryMXBean().getHeapMemoryUsage();
    found.put("heap_bytes", heap.getUsed());
    found.put("heap_max_bytes", heap.getMax());
    found.put(
        "non_heap_bytes", ManagementFactory.getMemoryMXBean().getNonHeapMemoryUsage().getUsed());
    long direct = 0;
    for (BufferPoolMXBean pool : ManagementFactory.getPlatformMXBeans(BufferPoolMXBean.class)) {
      direct += pool.getMemoryUsed();
    }
    found.put("direct_bytes", direct);
    found.put("threads", ManagementFactory.getThreadMXBean().getThreadCount());
    found.put("gc_ms", GarbageLimit.collectingMillis());
    return found;
  }
}
