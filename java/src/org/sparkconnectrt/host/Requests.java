package org.sparkconnectrt.host;

import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * A request that a plug-in may make in a loop: it is passed on at most ten times a second, and
 * never lost, for what is asked again before it was passed on is one request.
 */
final class Requests {
  private static final long EACH_MILLIS = 100;
  private static final ScheduledExecutorService TIMER =
      Executors.newSingleThreadScheduledExecutor(
          work -> {
            Thread thread = new Thread(work, "requests");
            thread.setDaemon(true);
            return thread;
          });

  private final Runnable pass;
  private final AtomicBoolean waiting = new AtomicBoolean();
  private volatile long passed = System.nanoTime() - TimeUnit.MILLISECONDS.toNanos(EACH_MILLIS);

  Requests(Runnable pass) {
    this.pass = pass;
  }

  /** Passes it on, now or soon. Any thread. */
  void make() {
    if (waiting.compareAndSet(false, true)) {
      long since = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - passed);
      TIMER.schedule(this::passOn, Math.max(0, EACH_MILLIS - since), TimeUnit.MILLISECONDS);
    }
  }

  private void passOn() {
    passed = System.nanoTime();
    waiting.set(false); // before: what is asked from here on is another request
    pass.run();
  }
}
