package org.sparkconnectrt.host;

import java.util.IdentityHashMap;
import java.util.Map;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.TransactionContext;

/** Where a task says that its transactions end (KIP-618). Any thread. */
final class Boundaries implements TransactionContext {
  static final String COMMIT = "commit";
  static final String ABORT = "abort";

  private final Map<SourceRecord, String> ends = new IdentityHashMap<>();
  private String batchEnd;

  @Override
  public synchronized void commitTransaction() {
    batchEnd = COMMIT;
  }

  @Override
  public synchronized void commitTransaction(SourceRecord record) {
    ends.put(java.util.Objects.requireNonNull(record), COMMIT);
  }

  @Override
  public synchronized void abortTransaction() {
    batchEnd = ABORT;
  }

  @Override
  public synchronized void abortTransaction(SourceRecord record) {
    ends.put(java.util.Objects.requireNonNull(record), ABORT);
  }

  /** Returns how the transaction ends behind {@code record}, null: it goes on. */
  synchronized String endAt(SourceRecord record) {
    return ends.remove(record);
  }

  /** Returns how it ends behind the batch, null: it goes on. */
  synchronized String takeBatchEnd() {
    String end = batchEnd;
    batchEnd = null;
    ends.clear();
    return end;
  }
}
