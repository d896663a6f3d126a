package org.sparkconnectrt.host;

import java.lang.ref.SoftReference;
import java.util.ArrayDeque;
import java.util.Iterator;

/**
 * Arrays of large frames, used again: one of 2 MB for each 20,000 records fits no survivor space,
 * was copied to the old generation by each young collection, and filled it (0.3 of the 2.1
 * microseconds of a cheap sink's record). What nobody hands back is garbage as ever; the others are
 * given up for want of memory.
 */
final class FrameBuffers {
  static final int SMALLEST_BYTES = 256 << 10;
  private static final int KEPT = 4;

  private final ArrayDeque<SoftReference<byte[]>> free = new ArrayDeque<>();

  /** Returns an array of at least so many bytes, whatever is in it. */
  byte[] take(int bytes) {
    if (bytes < SMALLEST_BYTES) {
      return new byte[bytes];
    }
    synchronized (free) {
      for (Iterator<SoftReference<byte[]>> one = free.iterator(); one.hasNext(); ) {
        byte[] found = one.next().get();
        if (found == null || found.length >= bytes) {
          one.remove();
        }
        if (found != null && found.length >= bytes) {
          return found;
        }
      }
    }
    return new byte[(bytes / SMALLEST_BYTES + 1) * SMALLEST_BYTES];
  }

  /** Takes back an array that nobody reads any more. */
  void give(byte[] array) {
    if (array.length < SMALLEST_BYTES) {
      return;
    }
    synchronized (free) {
      if (free.size() >= KEPT) {
        free.removeFirst(); // the longest unused, which may be too small for what comes now
      }
      free.addLast(new SoftReference<>(array));
    }
  }
}
