package org.sparkconnectrt.host;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/** Which of its calls a task is in, since when, for the heartbeat. Any thread. */
final class Calls {
  private final Map<Thread, Call> open = new ConcurrentHashMap<>();

  /** A call under way on one thread; it ends when it is closed. */
  final class Call implements AutoCloseable {
    private final String name;
    private final long began = System.nanoTime();

    private Call(String name) {
      this.name = name;
    }

    @Override
    public void close() {
      open.remove(Thread.currentThread());
    }
  }

  /** The current thread is in a call of the task's code until what this returns is closed. */
  Call in(String name) {
    Call call = new Call(name);
    open.put(Thread.currentThread(), call);
    return call;
  }

  /** Adds the call that has lasted longest. */
  void tell(ObjectNode beat) {
    Call longest = null;
    for (Call one : open.values()) {
      if (longest == null || one.began < longest.began) {
        longest = one;
      }
    }
    if (longest != null) {
      beat.put("call", longest.name);
      beat.put("call_ms", (System.nanoTime() - longest.began) / 1_000_000);
    }
  }
}
