package org.sparkconnectrt.host;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/** Says once a second which source task is in one call for long, and when it no longer is. */
final class Pulse extends Thread {
  private static final long EACH_MS = 1000;
  private static final Set<Call> calls = ConcurrentHashMap.newKeySet();
  private static boolean running;

  private Pulse() {
    super("pulse");
    setDaemon(true);
  }

  /** The call that one task is in. Set by the task's thread. */
  static final class Call {
    private final Hosted<?, ?> task;
    private volatile String name;
    private volatile long since;
    private boolean said;

    private Call(Hosted<?, ?> task) {
      this.task = task;
    }

    void begin(String call) {
      since = System.nanoTime();
      name = call;
    }

    /** Returns how long it took, in microseconds. */
    long end() {
      name = null;
      return (System.nanoTime() - since) / 1000;
    }

    private void look() {
      String call = name;
      long ms = (System.nanoTime() - since) / 1_000_000;
      boolean isLong = call != null && ms >= EACH_MS;
      if (isLong || said) {
        ObjectNode head = Wire.JSON.createObjectNode();
        if (isLong) {
          head.put("call", call).put("ms", ms);
        }
        said = isLong;
        task.send('J', head);
      }
    }
  }

  static synchronized Call of(Hosted<?, ?> task) {
    Call call = new Call(task);
    calls.add(call);
    if (!running) {
      running = true;
      new Pulse().start();
    }
    return call;
  }

  static void forget(Call call) {
    calls.remove(call);
  }

  @Override
  public void run() {
    while (true) {
      try {
        Thread.sleep(EACH_MS);
      } catch (InterruptedException ignored) {
        continue; // no one but a plug-in would do that
      }
      calls.forEach(Call::look);
    }
  }
}
