package org.sparkconnectrt.host;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.metrics.PluginMetrics;
import org.apache.kafka.connect.errors.RetriableException;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.runtime.SourceConnectorConfig;
import org.apache.kafka.connect.runtime.errors.LogReporter;
import org.apache.kafka.connect.runtime.errors.ProcessingContext;
import org.apache.kafka.connect.runtime.errors.Stage;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;
import org.apache.kafka.connect.source.SourceTaskContext;
import org.apache.kafka.connect.source.TransactionContext;
import org.apache.kafka.connect.storage.OffsetStorageReader;
import org.apache.kafka.connect.util.ConnectorTaskId;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.slf4j.MDC;

/**
 * One source task (Java's AbstractWorkerSourceTask): polls while Python has room, converts, sends
 * columns; commit hooks run on a thread of their own once Python says what is durable, as poll may
 * wait for long.
 */
final class SourceHosted extends Hosted<SourceRecord, SourceRecord> {
  private static final Logger log = LoggerFactory.getLogger(SourceHosted.class);
  private static final long LARGEST_BATCH_BYTES = 8L << 20;

  private final Semaphore room = new Semaphore(0);
  private final DriverOffsets offsets;
  private final Boundaries boundaries;
  private final boolean commitsRecords;
  private final ArrayDeque<Sent> sent = new ArrayDeque<>();
  private final java.util.concurrent.LinkedBlockingQueue<JsonNode> acks =
      new java.util.concurrent.LinkedBlockingQueue<>();
  private SourceTask task;
  private long batches;

  /** A batch that Python has: its records and the topic each went to, null where it was dropped. */
  private record Sent(List<SourceRecord> records, List<String> topics) {}

  SourceHosted(Home home, int host, ConnectorTaskId id, JsonNode start) throws Exception {
    super(
        home,
        host,
        id,
        new SourceConnectorConfig(home.plugins, strings(start.get("connector")), true),
        strings(start.get("task")));
    this.offsets = new DriverOffsets(this);
    this.boundaries = start.path("transactions").asBoolean() ? new Boundaries() : null;
    Class<?> cls = Class.forName(taskClass(taskConfig), false, loader);
    this.commitsRecords = overrides(cls);
    if (config.enableErrorLog()) {
      tolerance.reporters(List.of(new LogReporter.Source(id, config, errors)));
    }
  }

  private static boolean overrides(Class<?> cls) throws NoSuchMethodException {
    return cls.getMethod("commitRecord", SourceRecord.class, RecordMetadata.class).getDeclaringClass()
        != SourceTask.class;
  }

  @Override
  void life() throws Exception {
    task = newTask();
    Thread committing = new Thread(this::commitInTime, "commit-" + id);
    committing.setDaemon(true);
    try {
      try (var call = doing.in("start")) {
        task.initialize(new Context());
        task.start(taskConfig);
      }
      ObjectNode started = Wire.JSON.createObjectNode();
      started.put("commits_records", commitsRecords);
      started.put("version", task.version());
      send('S', started);
      committing.start();
      while (!stopping) {
        if (room.tryAcquire(1, TimeUnit.SECONDS)) {
          poll();
        }
      }
    } finally {
      try (var call = doing.in("stop")) {
        task.stop();
      }
      offsets.end();
    }
  }

  private void poll() throws Exception {
    List<SourceRecord> polled;
    try (var call = doing.in("poll")) {
      polled = task.poll();
    } catch (RetriableException error) {
      log.warn("{} poll will be tried again", id, error);
      Thread.sleep(100);
      polled = null;
    }
    if (polled == null || polled.isEmpty()) {
      if (boundaries != null && boundaries.takeBatchEnd() != null) {
        log.warn("{} asked for the end of a transaction without records", id);
      }
      room.release();
      return;
    }
    convert(polled);
  }

  private void convert(List<SourceRecord> polled) throws IOException {
    Map<String, Columns> topics = new LinkedHashMap<>();
    List<SourceRecord> records = new ArrayList<>();
    List<String> places = new ArrayList<>();
    Map<Map<String, ?>, Map<String, ?>> last = new LinkedHashMap<>();
    int dropped = 0;
    long bytes = 0;
    for (int index = 0; index < polled.size(); index++) {
      SourceRecord record = polled.get(index);
      ProcessingContext<SourceRecord> context = new ProcessingContext<>(record);
      SourceRecord transformed = chain.apply(context, record);
      Columns columns = transformed == null || context.failed() ? null : add(topics, context, transformed);
      if (columns == null) {
        dropped++;
      } else {
        bytes += columns.lastRowBytes();
      }
      if (commitsRecords) {
        records.add(record);
        places.add(columns == null ? null : columns.topic);
      }
      last.put(record.sourcePartition(), record.sourceOffset());
      String end = boundaries == null ? null : boundaries.endAt(record);
      boolean isLast = index == polled.size() - 1;
      if (end == null && isLast && boundaries != null) {
        end = boundaries.takeBatchEnd();
      }
      if (isLast || end != null || bytes > LARGEST_BATCH_BYTES) {
        flush(topics, records, places, last, dropped, end, isLast);
        topics = new LinkedHashMap<>();
        records = new ArrayList<>();
        places = new ArrayList<>();
        last = new LinkedHashMap<>();
        dropped = 0;
        bytes = 0;
      }
    }
  }

  /** Adds a record's row; null where it was errant and tolerated. */
  private Columns add(Map<String, Columns> topics, ProcessingContext<SourceRecord> context, SourceRecord record) {
    RecordHeaders written =
        tolerance.execute(context, () -> written(record), Stage.HEADER_CONVERTER, headers.getClass());
    byte[] key =
        tolerance.execute(
            context,
            () -> keys.fromConnectData(record.topic(), written, record.keySchema(), record.key()),
            Stage.KEY_CONVERTER,
            keys.getClass());
    byte[] value =
        tolerance.execute(
            context,
            () -> values.fromConnectData(record.topic(), written, record.valueSchema(), record.value()),
            Stage.VALUE_CONVERTER,
            values.getClass());
    if (context.failed()) {
      return null;
    }
    Columns columns = topics.computeIfAbsent(record.topic(), Columns::new);
    columns.add(key, value, written, record.kafkaPartition(), record.timestamp());
    return columns;
  }

  private RecordHeaders written(SourceRecord record) {
    RecordHeaders result = new RecordHeaders();
    if (record.headers() != null) {
      for (Header header : record.headers()) {
        result.add(
            header.key(),
            headers.fromConnectHeader(record.topic(), header.key(), header.schema(), header.value()));
      }
    }
    return result;
  }

  private void flush(
      Map<String, Columns> topics,
      List<SourceRecord> records,
      List<String> places,
      Map<Map<String, ?>, Map<String, ?>> last,
      int dropped,
      String end,
      boolean pollEnds)
      throws IOException {
    ObjectNode head = Wire.JSON.createObjectNode();
    head.put("batch", batches++);
    head.put("dropped", dropped);
    head.put("poll_ends", pollEnds);
    if (end != null) {
      head.put("end", end);
    }
    ArrayNode stored = head.putArray("offsets");
    for (Map.Entry<Map<String, ?>, Map<String, ?>> one : last.entrySet()) {
      stored.addArray().add(home.json(one.getKey())).add(home.json(one.getValue()));
    }
    List<ByteBuffer> buffers = new ArrayList<>();
    ArrayNode sections = head.putArray("sections");
    for (Columns columns : topics.values()) {
      columns.write(sections.addObject(), buffers);
    }
    if (commitsRecords) {
      synchronized (sent) {
        sent.add(new Sent(records, places));
      }
    }
    try {
      home.wire.write('B', host, head, buffers.toArray(new ByteBuffer[0]));
    } catch (IOException gone) {
      Host.exit(Host.PYTHON_GONE);
    }
  }

  @Override
  void serve(Wire.Frame frame) {
    switch (frame.kind()) {
      case 'C' -> room.release(frame.head().asInt());
      case 'A' -> acks.add(frame.head());
      case 'O' -> offsets.answered(frame.head());
      case 'X' -> offsets.end();
      default -> log.error("{} no source task takes {}", id, frame.kind());
    }
  }

  /** Thread body: commit hooks, in the order in which batches became durable. */
  private void commitInTime() {
    MDC.put(Logs.CONTEXT, context());
    try (var swap = home.plugins.withClassLoader(loader)) {
      while (!stopping) {
        JsonNode ack = acks.poll(1, TimeUnit.SECONDS);
        if (ack != null) {
          try (var call = doing.in("commit")) {
            commit(ack);
          }
        }
      }
    } catch (InterruptedException end) {
      Thread.currentThread().interrupt();
    }
  }

  /**
   * {@code ack}: {"batches": n, "places": topic -> [[partition, offset, count, timestamp], ...]}, the
   * rows of each topic in order; without places the records' transaction was aborted.
   */
  private void commit(JsonNode ack) throws InterruptedException {
    if (commitsRecords) {
      Places places = new Places(ack.path("places"));
      for (int batch = ack.get("batches").asInt(); batch > 0; batch--) {
        Sent one;
        synchronized (sent) {
          one = sent.poll();
        }
        for (int index = 0; one != null && index < one.records().size(); index++) {
          String topic = one.topics().get(index);
          hook(one.records().get(index), topic == null ? null : places.next(topic));
        }
      }
    }
    try {
      task.commit();
    } catch (InterruptedException end) {
      throw end;
    } catch (Throwable error) { // plug-in code, and this thread has to go on
      log.error("{} commit failed, ignored", id, error);
    }
  }

  private void hook(SourceRecord record, RecordMetadata place) throws InterruptedException {
    try {
      task.commitRecord(record, place);
    } catch (InterruptedException end) {
      throw end;
    } catch (Throwable error) { // plug-in code, and this thread has to go on
      log.error("{} commitRecord failed, ignored", id, error);
    }
  }

  /** Where the records of each topic lie, handed out one by one. */
  private static final class Places {
    private final JsonNode runs;
    private final Map<String, int[]> at = new java.util.HashMap<>();

    Places(JsonNode runs) {
      this.runs = runs;
    }

    RecordMetadata next(String topic) {
      JsonNode ofTopic = runs.path(topic);
      int[] place = at.computeIfAbsent(topic, t -> new int[2]);
      JsonNode run = ofTopic.path(place[0]);
      if (run.isMissingNode()) {
        return null;
      }
      long offset = run.get(1).asLong() + place[1];
      TopicPartition partition = new TopicPartition(topic, run.get(0).asInt());
      if (++place[1] >= run.get(2).asInt()) {
        place[0]++;
        place[1] = 0;
      }
      long timestamp = run.path(3).asLong(-1);
      return new RecordMetadata(partition, offset, 0, timestamp, -1, -1);
    }
  }

  /** What the task may ask of its worker. */
  private final class Context implements SourceTaskContext {
    @Override
    public Map<String, String> configs() {
      return taskConfig;
    }

    @Override
    public OffsetStorageReader offsetStorageReader() {
      return offsets;
    }

    @Override
    public TransactionContext transactionContext() {
      return boundaries;
    }

    @Override
    public PluginMetrics pluginMetrics() {
      return home.taskMetrics(id);
    }
  }
}
