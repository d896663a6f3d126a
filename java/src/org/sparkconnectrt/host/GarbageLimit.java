package org.sparkconnectrt.host;

import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.lang.management.MemoryPoolMXBean;
import java.lang.management.MemoryUsage;

/**
 * Ends a JVM that does little but collect garbage in a heap that is full: such a heap is too small,
 * and its tasks crawl for hours. The serial collector has no such limit, as the parallel one has
 * ({@code UseGCOverheadLimit}); with another collector, which users may choose, this looks away.
 */
final class GarbageLimit {
  static final int OUT_OF_MEMORY = 3; // as of ExitOnOutOfMemoryError
  // Of the time, in collections. A thread that waits for a processor behind one counts as working.
  private static final double SHARE_MAX = 0.90;
  private static final double FULL = 0.95; // of the old generation, after a collection
  private static final int COLLECTIONS_MIN =
      5; // fewer: one is slow, or this process was stopped in one

  private final long windowMillis;
  private final MemoryPoolMXBean old = oldGeneration();
  private long sinceMillis;
  private long collectingMillis;
  private long collections;

  /** {@code windowMillis}: how long it has to be so. */
  GarbageLimit(long windowMillis, long nowMillis) {
    this.windowMillis = windowMillis;
    begin(nowMillis);
  }

  /** Returns why this JVM is to end, null: it is not. To be called about once a second. */
  String complaint(long nowMillis) {
    if (old == null) {
      return null;
    }
    long passed = nowMillis - sinceMillis;
    long collecting = collectingMillis() - collectingMillis;
    if (collecting < SHARE_MAX * passed || !isFull()) {
      begin(nowMillis);
      return null;
    }
    if (passed < windowMillis || collections() - collections < COLLECTIONS_MIN) {
      return null;
    }
    return "garbage collection took "
        + collecting
        + " of "
        + passed
        + " ms, and the heap is full: it is too small";
  }

  private void begin(long nowMillis) {
    sinceMillis = nowMillis;
    collectingMillis = collectingMillis();
    collections = collections();
  }

  private boolean isFull() {
    MemoryUsage left = old.getCollectionUsage();
    return left != null && left.getUsed() >= FULL * left.getMax();
  }

  private static MemoryPoolMXBean oldGeneration() {
    return ManagementFactory.getMemoryPoolMXBeans().stream()
        .filter(pool -> pool.getName().equals("Tenured Gen"))
        .findFirst()
        .orElse(null);
  }

  static long collectingMillis() {
    long sum = 0;
    for (GarbageCollectorMXBean collector : ManagementFactory.getGarbageCollectorMXBeans()) {
      sum += Math.max(0, collector.getCollectionTime());
    }
    return sum;
  }

  private static long collections() {
    long sum = 0;
    for (GarbageCollectorMXBean collector : ManagementFactory.getGarbageCollectorMXBeans()) {
      sum += Math.max(0, collector.getCollectionCount());
    }
    return sum;
  }
}
