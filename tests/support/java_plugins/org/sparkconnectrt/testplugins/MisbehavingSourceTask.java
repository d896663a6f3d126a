package org.sparkconnectrt.testplugins;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.metrics.Gauge;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Values 0, 1, 2, ... of each source partition {"partition": p}, offset {"n": next}. */
public final class MisbehavingSourceTask extends SourceTask {
  private static final Logger log = LoggerFactory.getLogger(MisbehavingSourceTask.class);
  private static final AtomicInteger INSTANCES = new AtomicInteger();
  private static final byte[] NOTHING = new byte[0];

  private Misbehaviour does = new Misbehaviour(Map.of());
  private String topic;
  private int task;
  private long last;
  private int batch;
  private int size;
  private long pauseMillis;
  private long[] next = new long[0];
  private List<Map<String, Object>> partitions = new ArrayList<>();
  private int turn;
  private volatile long polled;
  private boolean stopped;
  private javax.management.ObjectName bean;

  @Override
  public String version() {
    return does.in("version") ? null : "1.0";
  }

  @Override
  public void start(Map<String, String> props) {
    does = new Misbehaviour(props);
    does.in("start");
    Map<String, Object> config = MisbehavingSource.DEFINITION.parse(props);
    topic = (String) config.get("topic");
    last = (long) config.get("records");
    batch = (int) config.get("batch");
    size = (int) config.get("record.bytes");
    pauseMillis = (long) config.get("pause.ms");
    task = Integer.parseInt(props.getOrDefault(Misbehaviour.TASK, "0"));
    int count = (int) config.get("partitions");
    next = new long[count];
    for (int number = 0; number < count; number++) {
      partitions.add(Map.of("task", task, "partition", number));
    }
    Map<Map<String, Object>, Map<String, Object>> stored =
        context.offsetStorageReader().offsets(partitions);
    for (int number = 0; number < count; number++) {
      Map<String, Object> offset = stored.get(partitions.get(number));
      next[number] = offset == null ? 0 : ((Number) offset.get("n")).longValue();
    }
    bean = Beans.register(props.getOrDefault("name", "none"), task, () -> polled);
    if (context.pluginMetrics() != null) {
      MetricName name =
          context
              .pluginMetrics()
              .metricName("polled", "records polled", new java.util.LinkedHashMap<>());
      context.pluginMetrics().addMetric(name, (Gauge<Long>) (metric, now) -> polled);
    }
    int instances = INSTANCES.incrementAndGet();
    log.info("started; instance {} of its class in this JVM", instances);
    log.debug("in detail: task {} of {}", task, topic);
  }

  @Override
  public List<SourceRecord> poll() throws InterruptedException {
    if (does.in("poll")) {
      return null;
    }
    if (pauseMillis > 0) {
      Thread.sleep(pauseMillis);
    }
    List<SourceRecord> records = new ArrayList<>();
    if (does.has("poll", "huge")) {
      records.add(record(0, 0, new byte[1_000_000_000]));
      return records;
    }
    for (int tries = 0; records.size() < batch && tries < batch; tries++) {
      int number = turn++ % next.length;
      if (last < 0 || next[number] < last) {
        records.add(record(number, next[number]++, NOTHING));
      }
    }
    if (does.has("poll", "nulls") && !records.isEmpty()) {
      records.set(0, null);
    }
    if (records.isEmpty()) {
      Thread.sleep(100);
    }
    polled += records.size();
    return records;
  }

  private SourceRecord record(int number, long value, byte[] given) {
    Map<String, Object> offset = new HashMap<>();
    offset.put("n", value + 1);
    if (given.length > 0) {
      return new SourceRecord(partitions.get(number), offset, topic, Schema.BYTES_SCHEMA, given);
    }
    String text = number + ":" + value;
    String filled = size > text.length() ? text + "x".repeat(size - text.length()) : text;
    return new SourceRecord(partitions.get(number), offset, topic, Schema.STRING_SCHEMA, filled);
  }

  @Override
  public void commit() throws InterruptedException {
    does.in("commit");
  }

  @Override
  public void commitRecord(SourceRecord record, RecordMetadata metadata)
      throws InterruptedException {
    does.in("commitRecord");
  }

  @Override
  public void stop() {
    does.in("stop");
    if (stopped) {
      throw new IllegalStateException("stopped twice");
    }
    stopped = true;
    Beans.unregister(bean);
  }
}
