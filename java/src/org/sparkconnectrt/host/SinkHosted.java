package org.sparkconnectrt.host;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.errors.RetriableException;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.runtime.InternalSinkRecord;
import org.apache.kafka.connect.runtime.SinkConnectorConfig;
import org.apache.kafka.connect.runtime.errors.ProcessingContext;
import org.apache.kafka.connect.runtime.errors.Stage;
import org.apache.kafka.connect.runtime.errors.WorkerErrantRecordReporter;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.sink.SinkTask;
import org.apache.kafka.connect.util.ConnectorTaskId;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One sink task (Java's WorkerSinkTask, its delivery half). Python says what happens next and waits
 * for the answer: open, put, pre-commit, close. Each answer tells what the task asked for in the
 * call.
 */
final class SinkHosted extends Hosted<ConsumerRecord<byte[], byte[]>, SinkRecord> {
  private static final Logger log = LoggerFactory.getLogger(SinkHosted.class);
  private static final Map<Character, String> NAMES =
      Map.of('P', "put", 'G', "put", 'U', "open", 'V', "preCommit", 'Y', "close");

  private final LinkedBlockingQueue<Wire.Frame> calls = new LinkedBlockingQueue<>();
  private final SinkContext context;
  private SinkTask task;
  private final DeadLetters letters = new DeadLetters(this);
  private final WorkerErrantRecordReporter errant;
  private final Map<TopicPartition, Long> reached = new HashMap<>(); // committed when it was opened
  private List<SinkRecord> again; // what the task asked for again, else null
  private int againRows; // of which these were made
  private final RetryClock retries;
  private volatile boolean ending;

  SinkHosted(Home home, int host, ConnectorTaskId id, JsonNode start) {
    this(home, host, id, start, new RetryClock());
  }

  private SinkHosted(Home home, int host, ConnectorTaskId id, JsonNode start, RetryClock retries) {
    super(
        home,
        host,
        id,
        new SinkConnectorConfig(home.plugins, strings(start.get("connector"))),
        strings(start.get("task")),
        retries);
    this.retries = retries;
    SinkConnectorConfig sink = (SinkConnectorConfig) config;
    tolerance.reporters(List.of(letters)); // also for the log and the counts, which are Python's
    this.errant =
        sink.enableErrantRecordReporter() || sink.enableErrorLog()
            ? new WorkerErrantRecordReporter(tolerance, keys, values, headers)
            : null;
    this.context = new SinkContext(this, errant, start);
  }

  @Override
  void life() throws Exception {
    try (var doing = this.doing.in("constructor")) {
      task = newTask();
    }
    try {
      try (var doing = this.doing.in("start")) {
        task.initialize(context);
        task.start(taskConfig);
      }
      ObjectNode started = Wire.JSON.createObjectNode();
      started.put("version", version(task));
      started.put("acts_when_asked", overrides("preCommit") || overrides("flush"));
      send('S', started);
      while (true) {
        Wire.Frame call = calls.take();
        if (call.kind() == 'X') {
          return;
        }
        ObjectNode answer;
        try (var doing = this.doing.in(NAMES.getOrDefault(call.kind(), "call"))) {
          answer = answer(call);
        }
        send('D', answer);
      }
    } finally {
      try (var doing = this.doing.in("stop")) {
        task.stop();
      } catch (RuntimeException error) { // as in Java: it has ended all the same
        log.warn("Could not stop task", error);
      }
      context.close();
    }
  }

  @Override
  void serve(Wire.Frame frame) {
    switch (frame.kind()) {
      case 'R' -> letters.done(frame.head());
      case 'F' -> context.latest().answered(frame.head());
      case 'M' -> context.member().joined(frame.head());
      case 'I' -> {
        retries.hurry();
        if (frame
            .head()
            .asBoolean()) { // the task is to end, which ends a wait between attempts, too
          ending = true;
          tolerance.triggerStop();
        }
      }
      default -> calls.add(frame);
    }
  }

  private ObjectNode answer(Wire.Frame call) {
    ObjectNode answer = Wire.JSON.createObjectNode();
    Puts puts = new Puts(answer);
    try {
      switch (call.kind()) {
        case 'P' -> {
          put(call, puts);
          home.wire.recycle(call); // each record has its own bytes
        }
        case 'G' -> deliver(again, againRows, puts);
        case 'U' -> open(partitions(call.head()));
        case 'V' -> safe(call.head(), answer);
        case 'Y' -> {
          Set<TopicPartition> leaving = partitions(call.head());
          reached.keySet().removeAll(leaving);
          close(leaving);
        }
        default -> throw new IllegalArgumentException("no sink task takes " + call.kind());
      }
    } catch (Throwable error) { // plug-in code
      answer.set("error", failure(error));
    }
    puts.tell();
    context.tell(answer);
    return answer;
  }

  /**
   * Opens partitions. A task that answers preCommit itself may commit its group's offsets in
   * transactions of its own (Iceberg's does): Python knows nothing of them, so a task that is
   * hosted again would be given what it has committed already. In Java its new consumer begins
   * there.
   */
  private void open(Set<TopicPartition> partitions) throws Exception {
    task.open(context.opened(partitions));
    if (overrides("preCommit")) {
      reached.putAll(context.member().reached(partitions));
      reached
          .keySet()
          .removeAll(context.offsets().keySet()); // the task itself says where these begin
    }
  }

  private boolean overrides(String method) throws NoSuchMethodException {
    return task.getClass().getMethod(method, Map.class).getDeclaringClass() != SinkTask.class;
  }

  /**
   * Whether a record is not put: it is behind what is reached, or comes again after the seek to
   * there.
   */
  private boolean isBehind(ConsumerRecord<byte[], byte[]> raw, Set<TopicPartition> sought) {
    if (reached.isEmpty() && sought.isEmpty()) {
      return false;
    }
    TopicPartition partition = new TopicPartition(raw.topic(), raw.partition());
    if (sought.contains(partition)) {
      return true;
    }
    Long begin = reached.get(partition);
    if (begin == null || raw.offset() >= begin) {
      reached.remove(partition);
      return false;
    }
    context.offset(partition, begin);
    sought.add(partition);
    return true;
  }

  /**
   * Puts the rows of a frame, so many at a time. It stops early, behind a put, when the task asked
   * for something that Java would see to before its next put, or when somebody waits for this
   * answer; Python sends the rest again.
   */
  private void put(Wire.Frame call, Puts puts) {
    Consumed rows = new Consumed(call.head(), call.data());
    int most = call.head().path("most").asInt(rows.left());
    Set<TopicPartition> sought = new HashSet<>();
    retries.begin();
    try {
      do {
        List<SinkRecord> records = converted(rows, Math.min(most, rows.left()), sought);
        if (!deliver(records, rows.taken() - puts.rows(), puts)) {
          return;
        }
      } while (rows.left() > 0 && puts.mayGoOn() && !retries.isHurried() && !context.waits());
    } catch (RetryClock.Ended hurried) {
      // These rows are left, as the answer says by the count of those that are done with.
    }
  }

  /** Returns the records of the next rows. Raises RetryClock.Ended. */
  private List<SinkRecord> converted(Consumed rows, int count, Set<TopicPartition> sought) {
    List<SinkRecord> records = new ArrayList<>(count);
    for (; count > 0 && rows.next(); count--) {
      ConsumerRecord<byte[], byte[]> raw = rows.record();
      if (isBehind(raw, sought)) {
        continue;
      }
      SinkRecord record = converted(raw);
      if (record != null) {
        records.add(record);
      } else if (ending) { // it may have been given up for that alone
        throw new RetryClock.Ended();
      }
    }
    return records;
  }

  /** Puts records, of so many rows; false: the task asks for them again. */
  private boolean deliver(List<SinkRecord> records, int rows, Puts puts) {
    again = null;
    long began = System.nanoTime();
    try {
      task.put(new ArrayList<>(records));
      if (errant != null) {
        errant.maybeThrowAsyncError();
      }
      puts.taken(records.size(), rows);
    } catch (RetriableException error) {
      again = records;
      againRows = rows;
      puts.answer().set("again", failure(error));
    } catch (Throwable error) {
      throw new ConnectException("Exiting WorkerSinkTask due to unrecoverable exception.", error);
    } finally {
      puts.took(System.nanoTime() - began);
    }
    return again == null;
  }

  /** Returns a record as its task gets it; null: dropped, or errant and tolerated. */
  private SinkRecord converted(ConsumerRecord<byte[], byte[]> raw) {
    ProcessingContext<ConsumerRecord<byte[], byte[]>> context = new ProcessingContext<>(raw);
    SchemaAndValue key =
        tolerance.execute(
            context,
            within(keys, () -> keys.toConnectData(raw.topic(), raw.headers(), raw.key())),
            Stage.KEY_CONVERTER,
            keys.getClass());
    SchemaAndValue value =
        tolerance.execute(
            context,
            within(values, () -> values.toConnectData(raw.topic(), raw.headers(), raw.value())),
            Stage.VALUE_CONVERTER,
            values.getClass());
    ConnectHeaders read =
        tolerance.execute(
            context, within(headers, () -> read(raw)), Stage.HEADER_CONVERTER, headers.getClass());
    if (context.failed()) {
      return null;
    }
    SinkRecord record =
        new SinkRecord(
            raw.topic(),
            raw.partition(),
            key.schema(),
            key.value(),
            value.schema(),
            value.value(),
            raw.offset(),
            raw.timestampType() == TimestampType.NO_TIMESTAMP_TYPE ? null : raw.timestamp(),
            raw.timestampType(),
            read);
    SinkRecord transformed = chain.apply(context, record);
    return transformed == null ? null : new InternalSinkRecord(context, transformed);
  }

  private ConnectHeaders read(ConsumerRecord<byte[], byte[]> raw) {
    ConnectHeaders result = new ConnectHeaders();
    raw.headers()
        .forEach(
            header ->
                result.add(
                    header.key(),
                    headers.toConnectHeader(raw.topic(), header.key(), header.value())));
    return result;
  }

  private void safe(JsonNode head, ObjectNode answer) {
    Map<TopicPartition, OffsetAndMetadata> asked = new HashMap<>();
    head.forEach(
        one ->
            asked.put(
                new TopicPartition(one.get(0).asText(), one.get(1).asInt()),
                new OffsetAndMetadata(one.get(2).asLong())));
    if (errant != null) {
      errant.awaitFutures(asked.keySet());
    }
    Map<TopicPartition, OffsetAndMetadata> safe = task.preCommit(asked);
    ArrayNode offsets = answer.putArray("offsets");
    if (safe != null) {
      safe.forEach(
          (tp, offset) -> {
            if (offset != null) {
              offsets.addArray().add(tp.topic()).add(tp.partition()).add(offset.offset());
            }
          });
    }
  }

  private void close(Set<TopicPartition> partitions) {
    try {
      task.close(partitions);
    } finally {
      context.closed(partitions);
      if (errant != null) {
        errant.cancelFutures(partitions);
      }
    }
  }

  private static Set<TopicPartition> partitions(JsonNode list) {
    Set<TopicPartition> found = new HashSet<>();
    list.forEach(one -> found.add(new TopicPartition(one.get(0).asText(), one.get(1).asInt())));
    return found;
  }
}
