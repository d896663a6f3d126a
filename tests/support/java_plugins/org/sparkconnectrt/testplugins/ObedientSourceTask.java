package org.sparkconnectrt.testplugins;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;
import org.apache.kafka.connect.source.TransactionContext;

/**
 * Polls what the setting {@code script} says, one line a poll, words apart by spaces: {@code a} is
 * a record of value a, {@code a>t2} one for topic t2, {@code a+} and {@code a-} commit and abort
 * the transaction behind it, {@code +} and {@code -} behind the poll, {@code a?} is unlike its
 * schema, {@code a&#123;} and {@code a&#125;} have the headers of Debezium's delete and insert of a
 * changed key, {@code hang} never returns, {@code $} notes the setting "label" as it is now. The
 * offset {"n": line} of partition {"name": connector} is the line behind. Notes go to {@code file}.
 */
public final class ObedientSourceTask extends SourceTask {
  private Path notes;
  private String name;
  private List<String> lines = List.of();
  private int next;
  private boolean readsAtStop;

  @Override
  public String version() {
    return "1.0";
  }

  @Override
  public void start(Map<String, String> props) {
    notes = Path.of(props.get("file"));
    name = props.get("name");
    lines = props.get("script").lines().toList();
    readsAtStop = props.containsKey("reads.at.stop");
    next = stored();
    note("start " + next + " " + (context.transactionContext() != null));
  }

  private int stored() {
    Map<String, Object> stored = context.offsetStorageReader().offset(Map.of("name", name));
    return stored == null ? 0 : ((Number) stored.get("n")).intValue();
  }

  @Override
  public List<SourceRecord> poll() throws InterruptedException {
    if (next >= lines.size()) {
      Thread.sleep(20);
      return null;
    }
    String line = lines.get(next++);
    TransactionContext transactions = context.transactionContext();
    List<SourceRecord> records = new ArrayList<>();
    for (String word : line.split(" ")) {
      switch (word) {
        case "+" -> transactions.commitTransaction();
        case "-" -> transactions.abortTransaction();
        case "$" -> note("label " + context.configs().get("label"));
        case "!" -> Runtime.getRuntime().halt(1);
        case "" -> Thread.sleep(20);
        case "hang" -> {
          note("hang");
          Thread.sleep(Long.MAX_VALUE);
        }
        default -> records.add(record(word, transactions));
      }
    }
    return records;
  }

  private SourceRecord record(String word, TransactionContext transactions) {
    boolean unlike = word.endsWith("?");
    String[] parts = word.replaceAll("[-+?{}]$", "").split(">");
    SourceRecord record =
        new SourceRecord(
            Map.of("name", name),
            Map.of("n", next),
            parts.length > 1 ? parts[1] : "t",
            unlike ? Schema.INT64_SCHEMA : Schema.STRING_SCHEMA,
            parts[0]);
    if (word.endsWith("{")) {
      record.headers().addString("__debezium.newkey", "new");
    } else if (word.endsWith("}")) {
      record.headers().addString("__debezium.oldkey", "old");
    } else if (word.endsWith("+")) {
      transactions.commitTransaction(record);
    } else if (word.endsWith("-")) {
      transactions.abortTransaction(record);
    }
    return record;
  }

  @Override
  public void commitRecord(SourceRecord record, RecordMetadata metadata) {
    String place =
        metadata == null
            ? "nowhere"
            : metadata.topic() + "-" + metadata.partition() + "@" + metadata.offset();
    note(record.value() + " " + place);
  }

  @Override
  public void commit() {
    note("commit");
  }

  @Override
  public void stop() {
    note(readsAtStop ? "stop " + stored() : "stop");
  }

  private void note(String line) {
    try {
      Files.writeString(notes, line + "\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }
}
