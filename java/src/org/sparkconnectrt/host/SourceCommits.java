package org.sparkconnectrt.host;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayDeque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.slf4j.MDC;

/**
 * A source task's commit hooks, called once Python says what is durable; on a thread of their own,
 * as poll may wait for long. {@code commit} comes no more often than once in {@link
 * #COMMIT_EACH_MS}, and, as in Java, at every {@code offset.flush.interval.ms} though nothing came:
 * some tasks send what they owe then.
 */
final class SourceCommits implements Runnable {
  private static final Logger log = LoggerFactory.getLogger(SourceCommits.class);
  private static final long COMMIT_EACH_MS = 1000;
  private static final JsonNode END = Wire.JSON.nullNode();

  private final SourceHosted hosted;
  private final SourceTask task;
  private final boolean commitsRecords;
  private final long idleMs;
  private final ArrayDeque<Sent> sent = new ArrayDeque<>();
  private final LinkedBlockingQueue<JsonNode> acks = new LinkedBlockingQueue<>();
  private final Thread thread;

  /** A batch that Python has: its records and the topic each went to, null where it was dropped. */
  private record Sent(List<SourceRecord> records, List<String> topics) {}

  /** {@code idleMs}: how long there may be no commit though nothing is owed. */
  SourceCommits(SourceHosted hosted, SourceTask task, boolean commitsRecords, long idleMs) {
    this.hosted = hosted;
    this.task = task;
    this.commitsRecords = commitsRecords;
    this.idleMs = Math.max(idleMs, COMMIT_EACH_MS);
    this.thread = new Thread(this, "commit-" + hosted.id);
    thread.setDaemon(true);
  }

  void start() {
    thread.start();
  }

  /** Takes note of a batch before it is sent. */
  void sending(List<SourceRecord> records, List<String> topics) {
    if (commitsRecords) {
      synchronized (sent) {
        sent.add(new Sent(records, topics));
      }
    }
  }

  /**
   * {@code ack}: {"batches": n, "places": topic -> [[partition, offset, count, timestamp], ...]},
   * the rows of each topic in order; an offset of -1: their transaction was aborted.
   */
  void durable(JsonNode ack) {
    acks.add(ack);
  }

  /** Returns when the hooks of all that is durable were called. */
  void close() throws InterruptedException {
    acks.add(END);
    thread.join();
  }

  @Override
  public void run() {
    MDC.put(Logs.CONTEXT, hosted.mdc());
    try (var swap = hosted.home.plugins.withClassLoader(hosted.loader)) {
      boolean owed = false;
      long committed = System.nanoTime();
      while (true) {
        JsonNode ack =
            acks.poll(leftMs(committed, owed ? COMMIT_EACH_MS : idleMs), TimeUnit.MILLISECONDS);
        if (ack == END) {
          break;
        }
        if (ack != null) {
          try (var call = hosted.doing.in("commitRecord")) {
            records(ack);
          }
          owed = true;
        }
        if (leftMs(committed, owed ? COMMIT_EACH_MS : idleMs) == 0) {
          commit();
          owed = false;
          committed = System.nanoTime();
        }
      }
      if (owed) {
        commit();
      }
    } catch (InterruptedException end) {
      Thread.currentThread().interrupt();
    }
  }

  private static long leftMs(long since, long limitMs) {
    return Math.max(0, limitMs - (System.nanoTime() - since) / 1_000_000);
  }

  private void records(JsonNode ack) {
    if (!commitsRecords) {
      return;
    }
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

  private void commit() {
    try (var call = hosted.doing.in("commit")) {
      task.commit();
    } catch (Throwable error) { // plug-in code, and this thread has to go on
      log.error("{} commit failed, ignored", hosted.id, error);
    }
  }

  private void hook(SourceRecord record, RecordMetadata place) {
    try {
      task.commitRecord(record, place);
    } catch (Throwable error) { // plug-in code, and this thread has to go on
      log.error("{} commitRecord failed, ignored", hosted.id, error);
    }
  }

  /** Where the records of each topic lie, handed out one by one. */
  private static final class Places {
    private final JsonNode runs;
    private final Map<String, int[]> at = new HashMap<>();

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
      long first = run.get(1).asLong();
      long offset = first + place[1];
      if (++place[1] >= run.get(2).asInt()) {
        place[0]++;
        place[1] = 0;
      }
      if (first < 0) {
        return null;
      }
      String written = run.path(4).asText(topic);
      TopicPartition partition = new TopicPartition(written, run.get(0).asInt());
      return new RecordMetadata(partition, offset, 0, run.path(3).asLong(-1), -1, -1);
    }
  }
}
