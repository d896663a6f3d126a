package org.sparkconnectrt.host;

import com.fasterxml.jackson.databind.node.ObjectNode;

/** What the puts of one call came to, for its answer. */
final class Puts {
  private static final long LONGEST_NS = 100_000_000; // then Python may commit, report, pause

  private final ObjectNode answer;
  private final long until = System.nanoTime() + LONGEST_NS;
  private int records;
  private int rows;
  private int puts;
  private long tookNs;
  private long longestNs;

  Puts(ObjectNode answer) {
    this.answer = answer;
  }

  ObjectNode answer() {
    return answer;
  }

  /** Returns how many rows of the frame are done with: the first ones of it. */
  int rows() {
    return rows;
  }

  boolean mayGoOn() {
    return System.nanoTime() < until;
  }

  /** A put returned or raised. */
  void took(long ns) {
    puts++;
    tookNs += ns;
    longestNs = Math.max(longestNs, ns);
  }

  /** The task has these records, and whatever became of its rows is done. */
  void taken(int records, int rows) {
    this.records += records;
    this.rows += rows;
  }

  /** Writes it into the answer, if anything was put. */
  void tell() {
    if (puts > 0) {
      answer.put("records", records).put("rows", rows).put("puts", puts);
      answer.put("put_ms", tookNs / 1e6).put("put_ms_max", longestNs / 1e6);
    }
  }
}
