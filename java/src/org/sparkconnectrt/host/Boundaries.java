package org.sparkconnectrt.host;

import org.apache.kafka.connect.runtime.WorkerTransactionContext;
import org.apache.kafka.connect.source.SourceRecord;

/** Where a task says that its transactions end (KIP-618), with Java's own checks. Any thread. */
final class Boundaries extends WorkerTransactionContext {
  static final String COMMIT = "commit";
  static final String ABORT = "abort";

  /** Returns how the transaction ends behind {@code record}, null: it goes on. */
  synchronized String takeEnd(SourceRecord record) {
    boolean abort = shouldAbortOn(record);
    boolean commit = shouldCommitOn(record);
    return abort ? ABORT : commit ? COMMIT : null;
  }

  /** Returns how it ends behind the batch, null: it goes on. */
  synchronized String takeBatchEnd() {
    boolean abort = shouldAbortBatch();
    boolean commit = shouldCommitBatch();
    return abort ? ABORT : commit ? COMMIT : null;
  }
}
