package org.sparkconnectrt.host;

import java.util.function.Supplier;
import org.apache.kafka.common.utils.Time;

/**
 * The clock by which one task's records are tried again. It is looked at before each attempt: so
 * what must not wait for an attempt that may never succeed ends the attempts there.
 */
final class RetryClock implements Time {
  private volatile boolean hurried;

  /**
   * The attempts at a record were ended; it is no exception, which would make the record errant.
   */
  static final class Ended extends Error {
    private static final long serialVersionUID = 1L;

    Ended() {
      super("something must not wait for this record", null, false, false);
    }
  }

  /** Ends the attempts from now on, until {@link #begin}. Any thread. */
  void hurry() {
    hurried = true;
  }

  void begin() {
    hurried = false;
  }

  boolean isHurried() {
    return hurried;
  }

  @Override
  public long milliseconds() {
    if (hurried) {
      throw new Ended();
    }
    return SYSTEM.milliseconds();
  }

  @Override
  public long nanoseconds() {
    return SYSTEM.nanoseconds();
  }

  @Override
  public void sleep(long millis) {
    SYSTEM.sleep(millis);
  }

  @Override
  public void waitObject(Object object, Supplier<Boolean> condition, long deadline)
      throws InterruptedException {
    SYSTEM.waitObject(object, condition, deadline);
  }
}
