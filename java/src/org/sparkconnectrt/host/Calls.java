package org.sparkconnectrt.host;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/** Which of its calls a task is in, since when, and what its calls took so far. Any thread. */
final class Calls {
  private final Map<Thread, Call> open = new ConcurrentHashMap<>();
  private final Map<String, Took> took = new ConcurrentHashMap<>();

  /** A call under way on one thread; it ends when it is closed. */
  final class Call implements AutoCloseable {
    private final String name;
    private final long began = System.nanoTime();
    private final Call outer;

    private Call(String name, Call outer) {
      this.name = name;
      this.outer = outer;
    }

    private long millis() {
      return (System.nanoTime() - began) / 1_000_000;
    }

    @Override
    public void close() {
      if (outer == null) {
        open.remove(Thread.currentThread());
      } else {
        open.put(Thread.currentThread(), outer);
      }
      took.computeIfAbsent(name, n -> new Took()).add(System.nanoTime() - began);
    }
  }

  /** Sums of one kind of call. */
  private static final class Took {
    private long calls;
    private long nanos;
    private long longest;

    synchronized void add(long spent) {
      calls++;
      nanos += spent;
      longest = Math.max(longest, spent);
    }

    synchronized void tell(String name, ObjectNode counts, ObjectNode most) {
      counts.put(name + ".calls", calls);
      counts.put(name + ".ms", nanos / 1e6);
      most.put(name + ".ms_max", longest / 1e6);
      longest = 0;
    }
  }

  /** The current thread is in a call of the task's code until what this returns is closed. */
  Call in(String name) {
    Call call = new Call(name, open.get(Thread.currentThread()));
    open.put(Thread.currentThread(), call);
    return call;
  }

  /** Adds the call that has lasted longest, and the sums. */
  void tell(ObjectNode beat) {
    Call longest = null;
    for (Call one : open.values()) {
      if (longest == null || one.began < longest.began) {
        longest = one;
      }
    }
    if (longest != null) {
      beat.put("call", longest.name);
      beat.put("call_ms", longest.millis());
    }
    ObjectNode counts = beat.putObject("counts");
    ObjectNode most = beat.putObject("longest");
    took.forEach((name, one) -> one.tell(name, counts, most));
  }
}
