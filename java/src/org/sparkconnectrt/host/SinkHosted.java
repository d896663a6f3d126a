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
import org.apache.kafka.connect.errors.RetriableException;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.runtime.InternalSinkRecord;
import org.apache.kafka.connect.runtime.SinkConnectorConfig;
import org.apache.kafka.connect.runtime.errors.ErrorReporter;
import org.apache.kafka.connect.runtime.errors.LogReporter;
import org.apache.kafka.connect.runtime.errors.ProcessingContext;
import org.apache.kafka.connect.runtime.errors.Stage;
import org.apache.kafka.connect.runtime.errors.WorkerErrantRecordReporter;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.sink.SinkTask;
import org.apache.kafka.connect.util.ConnectorTaskId;

/**
 * One sink task (Java's WorkerSinkTask, its delivery half). Python says what happens next and waits
 * for the answer: open, put, pre-commit, close. Each answer tells what the task asked for in the call.
 */
final class SinkHosted extends Hosted<ConsumerRecord<byte[], byte[]>, SinkRecord> {
  private final LinkedBlockingQueue<Wire.Frame> calls = new LinkedBlockingQueue<>();
  private final SinkContext context;
  private SinkTask task;
  private List<SinkRecord> again = List.of();

  SinkHosted(Home home, int host, ConnectorTaskId id, JsonNode start) {
    super(
        home,
        host,
        id,
        new SinkConnectorConfig(home.plugins, strings(start.get("connector"))),
        strings(start.get("task")));
    SinkConnectorConfig sink = (SinkConnectorConfig) config;
    List<ErrorReporter<ConsumerRecord<byte[], byte[]>>> reporters = new ArrayList<>();
    if (sink.enableErrorLog()) {
      reporters.add(new LogReporter.Sink(id, sink, errors));
    }
    if (!sink.dlqTopicName().isEmpty()) {
      reporters.add(new DeadLetters(this));
    }
    tolerance.reporters(reporters);
    WorkerErrantRecordReporter errant =
        sink.enableErrantRecordReporter() || sink.enableErrorLog()
            ? new WorkerErrantRecordReporter(tolerance, keys, values, headers)
            : null;
    this.context = new SinkContext(this, errant);
  }

  @Override
  void life() throws Exception {
    task = newTask();
    try {
      task.initialize(context);
      task.start(taskConfig);
      ObjectNode started = Wire.JSON.createObjectNode();
      started.put("version", task.version());
      send('S', started);
      while (true) {
        Wire.Frame call = calls.take();
        if (call.kind() == 'X') {
          return;
        }
        send('D', answer(call));
      }
    } finally {
      task.stop();
    }
  }

  @Override
  void serve(Wire.Frame frame) {
    calls.add(frame);
  }

  private ObjectNode answer(Wire.Frame call) {
    ObjectNode answer = Wire.JSON.createObjectNode();
    try {
      switch (call.kind()) {
        case 'P' -> put(call);
        case 'G' -> task.put(again); // the same records again
        case 'U' -> task.open(context.opened(partitions(call.head())));
        case 'V' -> safe(call.head(), answer);
        case 'Y' -> close(partitions(call.head()));
        default -> throw new IllegalArgumentException("no sink task takes " + call.kind());
      }
    } catch (Throwable error) { // plug-in code
      answer.set("error", failure(error));
      if (!(error instanceof RetriableException)) {
        again = List.of();
      }
    }
    context.tell(answer);
    return answer;
  }

  private void put(Wire.Frame call) {
    again = List.of();
    List<SinkRecord> records = new ArrayList<>();
    Consumed rows = new Consumed(call.head(), call.data());
    while (rows.next()) {
      SinkRecord record = converted(rows.record());
      if (record != null) {
        records.add(record);
      }
    }
    again = records;
    task.put(records);
    again = List.of();
  }

  /** Returns a record as its task gets it; null: dropped, or errant and tolerated. */
  private SinkRecord converted(ConsumerRecord<byte[], byte[]> raw) {
    ProcessingContext<ConsumerRecord<byte[], byte[]>> context = new ProcessingContext<>(raw);
    SchemaAndValue key =
        tolerance.execute(
            context,
            () -> keys.toConnectData(raw.topic(), raw.headers(), raw.key()),
            Stage.KEY_CONVERTER,
            keys.getClass());
    SchemaAndValue value =
        tolerance.execute(
            context,
            () -> values.toConnectData(raw.topic(), raw.headers(), raw.value()),
            Stage.VALUE_CONVERTER,
            values.getClass());
    ConnectHeaders read =
        tolerance.execute(context, () -> read(raw), Stage.HEADER_CONVERTER, headers.getClass());
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
                result.add(header.key(), headers.toConnectHeader(raw.topic(), header.key(), header.value())));
    return result;
  }

  private void safe(JsonNode head, ObjectNode answer) {
    Map<TopicPartition, OffsetAndMetadata> asked = new HashMap<>();
    head.forEach(
        one ->
            asked.put(
                new TopicPartition(one.get(0).asText(), one.get(1).asInt()),
                new OffsetAndMetadata(one.get(2).asLong())));
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
    }
  }

  private static Set<TopicPartition> partitions(JsonNode list) {
    Set<TopicPartition> found = new HashSet<>();
    list.forEach(one -> found.add(new TopicPartition(one.get(0).asText(), one.get(1).asInt())));
    return found;
  }
}
