package org.sparkconnectrt.host;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.metrics.PluginMetrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.connect.errors.RetriableException;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.runtime.SourceConnectorConfig;
import org.apache.kafka.connect.runtime.errors.ProcessingContext;
import org.apache.kafka.connect.runtime.errors.Stage;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;
import org.apache.kafka.connect.source.SourceTaskContext;
import org.apache.kafka.connect.source.TransactionContext;
import org.apache.kafka.connect.storage.OffsetStorageReader;
import org.apache.kafka.connect.util.ConnectUtils;
import org.apache.kafka.connect.util.ConnectorTaskId;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One source task (Java's AbstractWorkerSourceTask): polls while Python has room, converts, sends
 * columns. Ends in two steps: after the first STOP it polls no more, after the second its hooks are
 * called for what became durable meanwhile, and it is stopped.
 */
final class SourceHosted extends Hosted<SourceRecord, SourceRecord> {
  private static final Logger log = LoggerFactory.getLogger(SourceHosted.class);
  private static final long LARGEST_BATCH_BYTES = 8L << 20;
  private static final long RETRY_WAIT_MS = 100;

  private final Room room = new Room();
  private final boolean claims;
  private final long flushMs;
  private final CountDownLatch mayStart;
  private final CountDownLatch mayEnd = new CountDownLatch(1);
  private final DriverOffsets offsets;
  private final LatestConfig latest;
  private final Boundaries boundaries;
  private final boolean commitsRecords;
  private final boolean commits;
  private SourceTask task;
  private PluginMetricsImpl metrics;
  private volatile SourceCommits hooks;
  private long batches;
  private long pollMicros;
  private int polls;
  private boolean
      offsetsAreHeld; // Python may hold the end of the last batch until a poll brings nothing

  SourceHosted(Home home, int host, ConnectorTaskId id, JsonNode start) throws Exception {
    super(
        home,
        host,
        id,
        new SourceConnectorConfig(home.plugins, strings(start.get("connector")), true),
        strings(start.get("task")));
    this.offsets = new DriverOffsets(home, question -> send('O', question));
    this.latest = new LatestConfig(this, start);
    this.boundaries = start.path("transactions").asBoolean() ? new Boundaries() : null;
    this.claims = start.path("claims").asBoolean();
    this.flushMs = start.path("flush_ms").asLong(Long.MAX_VALUE);
    this.mayStart = new CountDownLatch(claims ? 1 : 0);
    Class<?> cls = Class.forName(taskClass(taskConfig), false, loader);
    this.commitsRecords =
        overrides(cls, "commitRecord", SourceRecord.class, RecordMetadata.class)
            || overrides(cls, "commitRecord", SourceRecord.class);
    this.commits = overrides(cls, "commit");
    tolerance.reporters(List.of(new SourceLetters(this, start.path("letters").asBoolean())));
  }

  private static boolean overrides(Class<?> cls, String name, Class<?>... of) {
    try {
      return cls.getMethod(name, of).getDeclaringClass() != SourceTask.class;
    } catch (NoSuchMethodException error) { // a hook that Connect has no more
      return false;
    }
  }

  @Override
  void life() throws Exception {
    if (mayStart.getCount() > 0) { // an earlier producer of the task may still write
      send('M', about());
      mayStart.await();
    }
    try {
      if (!stopping) {
        begin();
        work();
      }
    } catch (Throwable error) { // plug-in code; said before its stop, which may hang
      send('F', failure(error));
    } finally {
      end();
    }
  }

  private void begin() throws Exception {
    try (var call = doing.in("constructor")) {
      task = newTask();
    }
    hooks = new SourceCommits(this, task, commitsRecords, idleCommitMs());
    task.initialize(new Context());
    try (var call = doing.in("start")) {
      task.start(taskConfig);
    }
    send('S', about().put("version", version(task)));
    hooks.start();
  }

  /** Tasks that write transactions are called at the ends of these only, as in Java. */
  private long idleCommitMs() {
    return commits && !claims ? flushMs : Long.MAX_VALUE;
  }

  private ObjectNode about() {
    return Wire.JSON
        .createObjectNode()
        .put("commits_records", commitsRecords)
        .put("commits", commits);
  }

  private void work() throws Exception {
    while (true) {
      switch (room.next()) {
        case POLL -> poll();
        case SAY_IDLE -> send('I', Wire.JSON.createObjectNode());
        default -> {
          return;
        }
      }
    }
  }

  private void end() throws InterruptedException {
    send('I', Wire.JSON.createObjectNode().put("last", true));
    mayEnd.await();
    try {
      if (task != null) {
        hooks.close();
        try (var call = doing.in("stop")) {
          task.stop();
        }
      }
    } catch (RuntimeException error) { // as in Java: it has ended all the same
      log.warn("Could not stop task", error);
    } finally {
      offsets.end();
      latest.end();
      Utils.closeQuietly(
          metrics, "plugin metrics"); // a task that starts again in this JVM has the same names
    }
  }

  private void poll() throws Exception {
    List<SourceRecord> polled = null;
    boolean failed = false;
    long began = System.nanoTime();
    try (var call = doing.in("poll")) {
      polled = task.poll();
    } catch (RetriableException error) {
      failed = true;
      log.warn("{} failed to poll records from SourceTask. Will retry operation.", id, error);
      send(
          'R', null); // perhaps the connector starts again by itself, from the offsets of the topic
      Thread.sleep(RETRY_WAIT_MS);
    } finally {
      pollMicros += (System.nanoTime() - began) / 1000;
      polls++;
    }
    if (offsetsAreHeld && !failed && (polled == null || polled.isEmpty())) {
      offsetsAreHeld = false;
      send('Y', null);
    }
    if (polled == null) {
      room.giveBack();
    } else if (polled.isEmpty()) {
      String end = boundaries == null ? null : boundaries.takeBatchEnd();
      if (end == null) {
        room.giveBack();
      } else {
        flush(new Batch(), end, true);
      }
    } else {
      try (var call = doing.in("convert")) { // transformations and converters are plug-in code, too
        convert(polled);
      }
    }
  }

  /** What is sent at once. */
  private final class Batch {
    final Map<String, Columns> topics = new LinkedHashMap<>();
    final List<SourceRecord> records = new ArrayList<>();
    final List<String> places = new ArrayList<>();
    final Map<Map<String, ?>, Map<String, ?>> last = new LinkedHashMap<>();
    int polled;
    long bytes;

    /**
     * Takes in a record and the columns it went to, null: it was dropped; then its offset is not
     * stored, as in Java.
     */
    void add(SourceRecord record, Columns columns) {
      polled++;
      if (columns != null) {
        bytes += columns.lastRowBytes();
        last.put(record.sourcePartition(), record.sourceOffset());
      }
      if (commitsRecords) {
        records.add(record);
        places.add(columns == null ? null : columns.topic);
      }
    }
  }

  private void convert(List<SourceRecord> polled) throws IOException {
    Batch batch = new Batch();
    for (int index = 0; index < polled.size(); index++) {
      SourceRecord record = polled.get(index);
      ProcessingContext<SourceRecord> context = new ProcessingContext<>(record);
      SourceRecord transformed = chain.apply(context, record);
      Columns columns =
          transformed == null || context.failed() ? null : add(batch.topics, context, transformed);
      if (context.failed() && stopping) { // it and all behind it is polled again
        flush(batch, null, true);
        return;
      }
      batch.add(record, columns);
      boolean isLast = index == polled.size() - 1;
      String end = boundaries == null ? null : boundaries.takeEnd(record);
      String batchEnd = boundaries == null || !isLast ? null : boundaries.takeBatchEnd();
      end = end == null ? batchEnd : end;
      if (isLast || end != null || batch.bytes > LARGEST_BATCH_BYTES) {
        flush(batch, end, isLast);
        batch = new Batch();
      }
    }
  }

  /** Adds a record's row; null where it was errant and tolerated. */
  private Columns add(
      Map<String, Columns> topics, ProcessingContext<SourceRecord> context, SourceRecord record) {
    RecordHeaders written =
        tolerance.execute(
            context,
            within(headers, () -> written(record)),
            Stage.HEADER_CONVERTER,
            headers.getClass());
    byte[] key =
        tolerance.execute(
            context,
            within(
                keys,
                () ->
                    keys.fromConnectData(
                        record.topic(), written, record.keySchema(), record.key())),
            Stage.KEY_CONVERTER,
            keys.getClass());
    byte[] value =
        tolerance.execute(
            context,
            within(
                values,
                () ->
                    values.fromConnectData(
                        record.topic(), written, record.valueSchema(), record.value())),
            Stage.VALUE_CONVERTER,
            values.getClass());
    if (context.failed()) {
      return null;
    }
    Columns columns = topics.computeIfAbsent(record.topic(), Columns::new);
    Long timestamp = ConnectUtils.checkAndConvertTimestamp(record.timestamp());
    columns.add(key, value, written, record.kafkaPartition(), timestamp);
    return columns;
  }

  private RecordHeaders written(SourceRecord record) {
    RecordHeaders result = new RecordHeaders();
    if (record.headers() != null) {
      for (Header header : record.headers()) {
        result.add(
            header.key(),
            headers.fromConnectHeader(
                record.topic(), header.key(), header.schema(), header.value()));
      }
    }
    return result;
  }

  private void flush(Batch batch, String end, boolean pollEnds) {
    ObjectNode head = Wire.JSON.createObjectNode();
    head.put("batch", batches++);
    head.put("polled", batch.polled);
    head.put("poll_ends", pollEnds);
    if (end != null) {
      head.put("end", end);
    }
    if (pollEnds) {
      head.put("polls", polls).put("poll_us", pollMicros);
      polls = 0;
      pollMicros = 0;
    }
    ArrayNode stored = head.putArray("offsets");
    for (Map.Entry<Map<String, ?>, Map<String, ?>> one : batch.last.entrySet()) {
      stored.addArray().add(home.json(one.getKey())).add(home.json(one.getValue()));
    }
    offsetsAreHeld |= !batch.last.isEmpty();
    List<ByteBuffer> buffers = new ArrayList<>();
    ArrayNode sections = head.putArray("sections");
    for (Columns columns : batch.topics.values()) {
      columns.write(sections.addObject(), buffers);
    }
    hooks.sending(batch.records, batch.places);
    try {
      home.wire.write('B', host, head, buffers.toArray(new ByteBuffer[0]));
    } catch (IOException gone) {
      Host.exit(Host.PYTHON_GONE);
    }
  }

  @Override
  void serve(Wire.Frame frame) {
    switch (frame.kind()) {
      case 'C' -> room.grant(frame.head().asInt());
      case 'A' -> hooks.durable(frame.head());
      case 'O' -> offsets.answered(frame.head());
      case 'F' -> latest.answered(frame.head());
      case 'N' -> mayStart.countDown();
      case 'X' -> end(frame.head().path("last").asBoolean(true));
      default -> log.error("{} no source task takes {}", id, frame.kind());
    }
  }

  private void end(boolean last) {
    room.close();
    mayStart.countDown();
    if (last) { // as in Java, offsets are read in stop(), too
      mayEnd.countDown();
    }
  }

  /** What the task may ask of its worker. */
  private final class Context implements SourceTaskContext {
    @Override
    public Map<String, String> configs() {
      return latest.get();
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
      synchronized (SourceHosted.this) {
        if (metrics == null) {
          metrics = home.taskMetrics(id);
        }
        return metrics;
      }
    }
  }
}
